"""The pages to act on: each a form on a page of its own, so that no update disturbs who writes."""

from __future__ import annotations

from typing import Final

from fastapi import Request
from starlette.responses import Response

from api.hall import Refused, Unknown
from api.picture import mode_of, scopes
from api.routes import actions
from api.routes.points import known
from api.security import Role
from api.web.desk import Desk
from api.web.forms import Field, Form, number_of, text_of, writable_points
from api.web.wording import MODES, point_name, point_value, scope_name
from facility.commands import Mode
from facility.kinds import KINDS

_MINUTES: Final = ("15", "30", "60", "120", "480")


class Acting:
    """What a person can change; a form and its answer per address."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def acknowledge_form(self, request: Request) -> Response:
        """Asks what is done about an alarm."""
        who = await self._desk.who(request, Role.OPERATOR)
        return self._desk.form(who, self._acknowledgement(request.query_params.get("key", "")))

    def _acknowledgement(self, key: str, note: str = "", wrong: str = "") -> Form:
        standing = {alarm.key: alarm for alarm in self._desk.hall.feed.active_alarms()}
        lines = [standing[key].text] if key in standing else ["It may have cleared by now."]
        lines.append(
            "The alarm stands until its cause is gone; this tells others that you are on it."
        )
        return Form(
            title=f"Acknowledge {key}",
            action="/acknowledge",
            button="Acknowledge",
            lines=lines,
            fields=[
                Field("key", value=key, kind="hidden"),
                Field("note", "What you do about it", note),
            ],
            wrong=wrong,
        )

    async def acknowledge(self, request: Request) -> Response:
        """Acknowledges."""
        who, form = await self._desk.posted(request, Role.OPERATOR)
        key = form.get("key", "")
        try:
            await actions.acknowledge(self._desk.hall, who, key, text_of(form, "note", "Note"))
        except Refused as error:
            again = self._acknowledgement(key, form.get("note", ""), error.reason)
            return self._desk.form(who, again)
        return self._desk.done(request, f"{key} is acknowledged by {who.name}.")

    async def override_form(self, request: Request) -> Response:
        """Asks for an override."""
        who = await self._desk.who(request, Role.OPERATOR)
        return self._desk.form(
            who, self._override({"point": request.query_params.get("point", "")})
        )

    def _override(self, form: dict[str, str], wrong: str = "") -> Form:
        return Form(
            title="Override a set-point",
            action="/override",
            button="Hold it",
            lines=[
                "An override beats efficiency and comfort, never protection, and ends by itself.",
                "Power caps are watts per GPU; supply set-points are °C.",
            ],
            fields=[
                Field(
                    "point",
                    "Set-point",
                    form.get("point", ""),
                    list=writable_points(self._desk.hall),
                ),
                Field("value", "Value, in W per GPU or °C", form.get("value", ""), "number"),
                Field(
                    "minutes",
                    "For how long",
                    form.get("minutes", "30"),
                    "select",
                    [(m, f"{m} min") for m in _MINUTES],
                ),
                Field("reason", "Why", form.get("reason", "")),
            ],
            wrong=wrong,
        )

    async def override(self, request: Request) -> Response:
        """Holds a point, or says what stands in the way."""
        who, form = await self._desk.posted(request, Role.OPERATOR)
        try:
            point = known(self._desk.hall, form.get("point", "").strip())
            value = number_of(form, "value", "Value")
            minutes = number_of(form, "minutes", "Minutes")
            reason = text_of(form, "reason", "Why")
            granted = await actions.hold(self._desk.hall, who, point, value, minutes, reason)
        except Unknown as error:
            return self._desk.form(who, self._override(form, str(error)))
        except Refused as error:
            named = error.bounded_by and error.bounded_by not in error.reason
            bound = f" What stands in the way: {error.bounded_by}." if named else ""
            return self._desk.form(who, self._override(form, error.reason + bound))
        held = point_value(granted.override.value, KINDS[point.kind].unit)
        text = f"{point_name(str(point))} is held at {held} for {minutes:g} min."
        if granted.bounded_by:
            text += f" Asked: {granted.asked:g}; bounded by {granted.bounded_by}."
        return self._desk.done(request, text)

    async def end_form(self, request: Request) -> Response:
        """Asks whether an override ends now."""
        who = await self._desk.who(request, Role.OPERATOR)
        wanted = request.query_params.get("id", "")
        held = next((o for o in self._desk.hall.overrides() if o.id == wanted), None)
        if held is None:
            raise Unknown("this override has ended already")
        value = point_value(held.value, KINDS[held.point.kind].unit)
        return self._desk.form(
            who,
            Form(
                title=f"End the override of {point_name(str(held.point))}",
                action="/override/end",
                button="End it now",
                lines=[
                    f"Held at {value} by {held.by}: {held.reason}",
                    "Automation takes over from what it would command now.",
                ],
                fields=[Field("id", value=held.id, kind="hidden")],
            ),
        )

    async def end(self, request: Request) -> Response:
        """Ends an override."""
        who, form = await self._desk.posted(request, Role.OPERATOR)
        ended = await actions.end_hold(self._desk.hall, who, form.get("id", ""))
        return self._desk.done(
            request, f"The override of {point_name(str(ended.point))} has ended."
        )

    async def modes_form(self, request: Request) -> Response:
        """Asks for a mode."""
        who = await self._desk.who(request, Role.ENGINEER)
        return self._desk.form(who, self._modes({}))

    def _modes(self, form: dict[str, str], wrong: str = "") -> Form:
        choices = [
            (scope, f"{scope_name(scope)} (now {mode_of(self._desk.hall, scope).value})")
            for scope in scopes(self._desk.hall)
        ]
        offered = [m for m in MODES if m is not Mode.ADVISE]
        return Form(
            title="Change who is in control",
            action="/modes",
            button="Change the mode",
            lines=["The narrower scope wins over the hall's mode."],
            fields=[
                Field("scope", "Where", form.get("scope", "hall"), "select", choices),
                Field(
                    "mode",
                    "Mode",
                    form.get("mode", mode_of(self._desk.hall, "hall").value),
                    "select",
                    [(m.value, f"{MODES[m][0]}: {MODES[m][1]}") for m in offered],
                ),
                Field("reason", "Why", form.get("reason", "")),
            ],
            wrong=wrong,
        )

    async def modes(self, request: Request) -> Response:
        """Changes a mode."""
        who, form = await self._desk.posted(request, Role.ENGINEER)
        scope = form.get("scope", "")
        try:
            if scope not in scopes(self._desk.hall) or form.get("mode") not in {
                m.value for m in Mode
            }:
                raise Refused("choose a scope and a mode of the lists")
            mode, reason = Mode(form["mode"]), text_of(form, "reason", "Why")
            await actions.set_mode(self._desk.hall, who, scope, mode, reason)
        except Refused as error:
            return self._desk.form(who, self._modes(form, error.reason))
        return self._desk.done(request, f"{scope_name(scope)} is in mode {mode.value} now.")

    async def release_form(self, request: Request) -> Response:
        """First step: says what giving back would move, and asks."""
        who = await self._desk.who(request, Role.OPERATOR)
        return self._desk.form(who, self._release(request.query_params.get("scope", "hall")))

    def _release(self, scope: str, reason: str = "", wrong: str = "") -> Form:
        seen = self._desk.hall.release_preview(scope)
        lines = [seen.text]
        if seen.moves_w is None:
            lines.append("How much load this moves cannot be foreseen now.")
        return Form(
            title=f"Release {_named(scope)} to local control?",
            action="/release",
            button="Release to local now",
            lines=lines,
            fields=[
                Field("scope", value=scope, kind="hidden"),
                Field("reason", "Why", reason),
            ],
            wrong=wrong,
            grave=True,
        )

    async def release(self, request: Request) -> Response:
        """Second step: gives back."""
        who, form = await self._desk.posted(request, Role.OPERATOR)
        scope = form.get("scope", "hall")
        try:
            reason = text_of(form, "reason", "Why")
        except Refused as error:
            return self._desk.form(who, self._release(scope, form.get("reason", ""), error.reason))
        done, audited = await actions.release(self._desk.hall, who, scope, reason)
        missing = "" if audited else " The database did not answer: only the log has this."
        return self._desk.done(request, done.text + missing)


def _named(scope: str) -> str:
    return "the hall" if scope == "hall" else scope_name(scope)
