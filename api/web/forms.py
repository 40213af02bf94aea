"""The page's forms: what they ask, and how their answers are read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from fastapi import Request

from api.hall import Hall, Refused
from api.problems import Problem
from api.routes.actions import REASON_MAX

FIELDS_MAX: Final = 30
TEXT_MIN: Final = 3


@dataclass(frozen=True, slots=True)
class Field:
    """One question of a form. `kind`: text, number, select or hidden."""

    name: str
    label: str = ""
    value: str = ""
    kind: str = "text"
    choices: Sequence[tuple[str, str]] = ()
    list: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Form:
    """One form on a page of its own, so that no live update disturbs who writes."""

    title: str
    action: str
    button: str
    fields: Sequence[Field]
    lines: Sequence[str] = ()
    wrong: str = ""
    grave: bool = False


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a posted form; of a repeated one the last.

    Raises:
        Problem: another media type, or too many fields.
    """
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/x-www-form-urlencoded":
        raise Problem("unsupported-media-type", "a form is application/x-www-form-urlencoded")
    try:
        pairs = parse_qsl(
            (await request.body()).decode("utf-8"),
            keep_blank_values=True,
            max_num_fields=FIELDS_MAX,
        )
    except ValueError as error:
        raise Problem("bad-request", f"the form cannot be read: {error}") from None
    return dict(pairs)


def text_of(form: dict[str, str], name: str, label: str) -> str:
    """A sentence somebody wrote.

    Raises:
        Refused: empty, too short or too long.
    """
    text = form.get(name, "").replace("\x00", "").strip()
    if not TEXT_MIN <= len(text) <= REASON_MAX:
        raise Refused(f"{label}: write {TEXT_MIN} to {REASON_MAX} characters")
    return text


def number_of(form: dict[str, str], name: str, label: str) -> float:
    """A number somebody wrote; a decimal comma is understood.

    Raises:
        Refused: no finite number.
    """
    text = form.get(name, "").strip()
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        raise Refused(f"{label}: {text!r} is no number") from None
    if not math.isfinite(value):
        raise Refused(f"{label}: {text!r} is no number")
    return value


def writable_points(hall: Hall) -> list[str]:
    """What an override can hold."""
    return [str(spec.id) for spec in hall.table.specs if spec.writable]


def local_path(text: str) -> str:
    """A path of this site to go on to; "/" for anything else."""
    good = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if good else "/"
