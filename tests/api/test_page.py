"""The page: what it says, that hostile names stay text, and that nothing in it is inline."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import httpx2
import pytest

from api.security import Role
from api.web import STATIC, TEMPLATES, pages
from facility.commands import Mode, Severity
from facility.store.errors import StoreUnavailable
from tests.api.hall import MemoryHall, alarm

BROWSER = {"accept": "text/html"}
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}"


class Elements(HTMLParser):
    """Every element with its attributes, and the text outside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inline: list[str] = []
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("script", "style") and data.strip():
            self.inline.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass


def text_of(page: str) -> str:
    """What a reader sees, in one line."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page)))


class Browser:
    """A logged-in visitor without JavaScript."""

    def __init__(self, client: httpx2.AsyncClient, key: str) -> None:
        self._client, self._key = client, key

    async def log_in(self) -> None:
        answer = await self._client.post("/login", data={"key": self._key}, headers=BROWSER)
        assert answer.status_code == 303

    async def open(self, path: str, status: int = 200) -> str:
        answer = await self._client.get(path, headers=BROWSER)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"].startswith("text/html")
        return answer.text

    async def send(self, path: str, **fields: str) -> httpx2.Response:
        """Open the form, fill in its hidden fields as a browser does, and post it."""
        page = Elements(await self.open(path))
        hidden = {
            attrs["name"]: attrs.get("value") or ""
            for tag, attrs in page.found
            if tag == "input" and attrs.get("type") == "hidden" and attrs.get("name")
        }
        data = {str(k): v for k, v in hidden.items()} | fields
        target = path.partition("?")[0]
        return await self._client.post(target, data=data, headers=BROWSER)


@pytest.fixture
async def browser(client: httpx2.AsyncClient, keys: dict[Role, str]) -> Browser:
    made = Browser(client, keys[Role.ENGINEER])
    await made.log_in()
    return made


async def test_who_is_not_logged_in_is_asked_to_and_comes_back(
    client: httpx2.AsyncClient, keys: dict[Role, str]
) -> None:
    answer = await client.get("/single-line?fail=ups-a1", headers=BROWSER)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/login?next=%2Fsingle-line%3Ffail%3Dups-a1"
    fields = {"key": keys[Role.VIEWER], "next": "/single-line?fail=ups-a1"}
    done = await client.post("/login", data=fields, headers=BROWSER)
    assert done.headers["location"] == "/single-line?fail=ups-a1"


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example", "/\\evil.example"])
async def test_logging_in_never_leads_elsewhere(
    client: httpx2.AsyncClient, keys: dict[Role, str], target: str
) -> None:
    done = await client.post("/login", data={"key": keys[Role.VIEWER], "next": target})
    assert done.headers["location"] == "/"


async def test_a_wrong_key_stays_at_the_door(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/login", data={"key": "wrong"}, headers=BROWSER)
    assert answer.status_code == 401
    assert "no key like this" in answer.text


async def test_the_overview_says_what_an_operator_must_know(
    browser: Browser, hall: MemoryHall
) -> None:
    hall.rack_load_w = 17_500.0
    hall.run_cycle()
    seen = text_of(await browser.open("/"))
    assert "Any single loss is survivable. Tightest: ROW1-A if PDU-B fails, 3.7 kW left." in seen
    assert "16:00:01 CET" in seen
    assert f"{len(hall.table)} of {len(hall.table)} values are good" in seen
    assert "All of the hall auto Wattkeeper acts" in seen
    assert "to condensation 20.5\N{NO-BREAK SPACE}K".replace("\N{NO-BREAK SPACE}", " ") in seen
    assert "to throttling 9.7 K" in seen
    assert "against the twin +21.0 %" in seen
    assert "Caps of r03 down to 498 W: row1-a." in seen
    assert "Supply up to 34.0 °C." in seen
    assert "1 write: data of r02 not good" in seen
    assert "Release to local" in seen
    assert "r01 23.6 kW 17.5 kW 3.7 kW 512 W 0.311 24.6 °C ups-a2 after loss of ups-a1" in seen


async def test_lost_redundancy_says_which_how_much_since_when_and_what_to_do(
    browser: Browser, hall: MemoryHall
) -> None:
    hall.rack_load_w = 24_000.0
    text = "ROW1-A would be 22 kW over. Take 22 kW off row 1."
    hall.run_cycle(
        [alarm("redundancy_lost:row1-a", text, hall.clock.ms, severity=Severity.CRITICAL)]
    )
    page = await browser.open("/")
    seen = text_of(page)
    assert "Redundancy is lost: ROW1-A lacks 23 kW" in seen
    assert "Since 16:00:01 CET." in seen
    assert "Take 22 kW off row 1." in seen
    assert 'class="top bad"' in page


async def test_nothing_known_is_said_and_never_zero(browser: Browser, hall: MemoryHall) -> None:
    hall.latest = hall.seen = None
    page = await browser.open("/")
    seen = text_of(page)
    assert "Not known yet: the first cycle has not finished." in seen
    assert "to condensation —" in seen
    assert "— pdu-r01-a: not read yet" in seen
    assert "0.0 kW" not in seen
    assert "nan" not in page.lower()


async def test_facts_that_a_controller_has_not_stated_are_survived(
    browser: Browser, hall: MemoryHall
) -> None:
    for facts in (
        {"headroom": {}, "cooling": {}, "efficiency": {}, "trust": {}},
        {"headroom": None, "cooling": None, "efficiency": None, "last": None, "next": None},
        {"efficiency": {"hall": None, "twin": None, "racks": None}, "cooling": {"loop-1": None}},
        {"headroom": {"ok": True, "binding": None}, "sentence": None},
        {"headroom": {"ok": False, "binding": {"element": "x", "headroom_w": None}}},
    ):
        hall.run_cycle(**facts)
        assert "Release to local" in await browser.open("/")


async def test_hostile_names_stay_text(browser: Browser, hall: MemoryHall) -> None:
    event = alarm(f"leak:{HOSTILE}", HOSTILE, hall.clock.ms)
    hall.run_cycle(
        [event],
        sentence=HOSTILE,
        last={"text": HOSTILE, "at_ms": hall.clock.ms},
        trust={"text": HOSTILE, "blind": [HOSTILE]},
    )
    await browser.send(f"/override?point={'r01-n1:total:power_cap'}", value="450", reason=HOSTILE)
    for path in ("/", "/override?point=" + HOSTILE, "/acknowledge?key=" + HOSTILE):
        page = await browser.open(path)
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert "{{7*7}}" in html.unescape(page)
        elements = Elements(page)
        assert elements.inline == []
        assert not [a for _, attrs in elements.found for a in attrs if a.startswith("on")]


async def test_an_alarm_is_acknowledged_with_a_note(browser: Browser, hall: MemoryHall) -> None:
    hall.run_cycle(
        [
            alarm("leak:r01", "water at r01", severity=Severity.CRITICAL),
            alarm("flow:r01", "no flow", parent="leak:r01"),
            alarm("hint:r01", "for information", severity=Severity.INFO),
        ]
    )
    seen = text_of(await browser.open("/"))
    assert "critical r01 water at r01" in seen
    assert "explains 1 more" in seen
    assert "no flow" not in seen
    assert "for information" not in seen
    short = await browser.send("/acknowledge?key=leak:r01", note=" ")
    assert short.status_code == 409
    assert "write 3 to 500 characters" in short.text
    done = await browser.send("/acknowledge?key=leak:r01", note="valve closed")
    assert done.status_code == 303
    seen = text_of(await browser.open("/"))
    assert "leak:r01 is acknowledged by engineer." in seen
    assert "seen by engineer: valve closed" in seen
    assert "is acknowledged by" not in text_of(await browser.open("/"))


async def test_an_override_is_asked_bounded_shown_and_ended(
    browser: Browser, hall: MemoryHall
) -> None:
    fields = {"point": "r01-n1:total:power_cap", "minutes": "30", "reason": "finish the job"}
    for value, why in (("abc", "is no number"), ("nan", "is no number"), ("950", "does not fit")):
        wrong = await browser.send("/override", value=value, **fields)
        assert wrong.status_code == 409
        assert why in wrong.text
        assert 'value="finish the job"' in wrong.text
    nowhere = await browser.send("/override", value="450", **fields | {"point": "x:y:power_cap"})
    assert "this hall has no point" in html.unescape(nowhere.text)
    assert hall.held == {}
    assert (await browser.send("/override", value="800,0", **fields)).status_code == 303
    seen = text_of(await browser.open("/"))
    assert "is held at 700 W for 30 min. Asked: 800; bounded by max_cap." in seen
    assert "held at 700 W by engineer until 16:30:01 CET: finish the job" in seen
    assert (await browser.send("/override/end?id=o1")).status_code == 303
    assert hall.held == {}
    await browser.open("/override/end?id=o1", 404)


async def test_release_takes_two_steps_and_says_what_moves(
    browser: Browser, hall: MemoryHall
) -> None:
    first = text_of(await browser.open("/release"))
    assert "up to 0.048 MW may come back" in first
    assert hall.released == []
    assert (await browser.send("/release", reason="fire drill")).status_code == 303
    assert hall.released == [("hall", "engineer", "fire drill")]
    assert "Rack r03" in text_of(await browser.open("/release?scope=rack:r03"))
    await browser.open("/release?scope=rack:nope", 404)


async def test_release_works_with_the_database_down(
    browser: Browser, hall: MemoryHall, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("gone")

    hall.run_cycle([alarm("leak:r01", "water at r01")])
    for name in ("audit", "alarms", "api_keys"):
        monkeypatch.setattr(hall.store, name, gone)
    hall.database = "connection refused"
    seen = text_of(await browser.open("/"))
    assert "The database does not answer" in seen
    assert "water at r01" in seen
    assert (await browser.send("/release", reason="fire drill")).status_code == 303
    assert hall.released == [("hall", "engineer", "fire drill")]
    assert "only the log has this" in text_of(await browser.open("/"))


async def test_a_mode_is_changed_and_shown(browser: Browser, hall: MemoryHall) -> None:
    wrong = await browser.send("/modes", scope="rack:nope", mode="off", reason="new rack")
    assert wrong.status_code == 409
    fields = {"scope": "rack:r03", "mode": "observe", "reason": "new rack"}
    assert (await browser.send("/modes", **fields)).status_code == 303
    assert hall.set_modes["rack:r03"] is Mode.OBSERVE
    assert "Rack r03 observe Wattkeeper computes" in text_of(await browser.open("/"))


async def test_a_form_without_its_token_changes_nothing(
    client: httpx2.AsyncClient, browser: Browser, hall: MemoryHall
) -> None:
    for token in ({}, {"csrf": ""}, {"csrf": "x" * 32}):
        answer = await client.post("/release", data={"reason": "fire drill"} | token)
        assert answer.status_code == 403
    assert hall.released == []


async def test_the_what_if_study_answers_in_a_sentence(browser: Browser, hall: MemoryHall) -> None:
    hall.rack_load_w = 12_000.0
    hall.run_cycle()
    page = await browser.open("/single-line?fail=ups-a1")
    assert "If ups-a1 fails, any further single loss is survivable." in text_of(page)
    assert 'class="top ok"' in page
    page = await browser.open("/single-line?fail=pdu-a")
    assert "survivable" not in text_of(page)
    assert "nothing is overloaded, but 8 racks go dark with one further loss: r01-r08." in (
        text_of(page)
    )
    assert 'class="top degraded"' in page
    hall.rack_load_w = 24_000.0
    seen = text_of(await browser.open("/single-line?fail=ups-a1"))
    assert "runs on without redundancy: loss of" in seen
    page = await browser.open("/single-line?fail=pdu-a&fail=pdu-b")
    assert "Racks dark r01-r08" in text_of(page)
    assert "If pdu-a and pdu-b fail, 8 racks go dark at once: r01-r08." in text_of(page)
    assert 'class="top bad"' in page
    assert "survivable" not in text_of(page)
    await browser.open("/single-line?fail=nope", 404)
    assert "If pdu-a fails, " in text_of(await browser.open("/single-line?fail=PDU-A"))


async def test_the_old_address_of_the_what_if_study_leads_on(
    client: httpx2.AsyncClient, browser: Browser
) -> None:
    answer = await client.get("/what-if?fail=pdu-a", headers=BROWSER)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/single-line?fail=pdu-a"


async def test_the_single_line_diagram_shows_and_fails_every_element(
    browser: Browser, hall: MemoryHall
) -> None:
    hall.run_cycle()
    page = await browser.open("/single-line")
    for element in hall.facility.power.elements:
        assert f'<a id="at-{element}" href="/single-line?fail={element}">' in page
    for rack in hall.facility.power.racks:
        assert f"<title>{rack}: 23.0" in page.replace("\N{NO-BREAK SPACE}", " ")
    page = await browser.open("/single-line?fail=row1-a")
    assert '<g class="box failed"><title>row1-a, busway: fails</title>' in page
    assert page.count('class="cell last-feed"') == 4
    assert '<a id="at-row1-a" href="/single-line">' in page  # a click on what fails puts it back
    assert "row1-b +46.0" in text_of(page).replace("\N{NO-BREAK SPACE}", " ")


async def test_what_has_the_keyboard_keeps_it_when_the_diagram_is_drawn_anew(
    browser: Browser, hall: MemoryHall
) -> None:
    """The diagram is replaced every two seconds; only what has an id keeps the focus."""
    hall.run_cycle()
    first, second = [await browser.open("/single-line/part") for _ in range(2)]
    links = re.findall(r"<a [^>]*>", first)
    ids = [re.search(r' id="([^"]+)"', link) for link in links]
    assert links
    assert all(ids)
    assert len({found[1] for found in ids if found}) == len(links)
    assert re.findall(r' id="([^"]+)"', second) == re.findall(r' id="([^"]+)"', first)


async def test_the_diagram_of_one_element_shows_what_hangs_on_it(
    browser: Browser, hall: MemoryHall
) -> None:
    hall.run_cycle()
    page = await browser.open("/single-line?focus=row1-a")
    assert "<title>r01: " in page
    assert "<title>r05: " not in page
    assert "<title>row1-b, " in page  # the other feed of its racks
    assert "<title>row2-a, " not in page


async def test_without_the_browser_libraries_the_page_reloads_itself(
    client: httpx2.AsyncClient, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "live_files_present", lambda: False)
    answer = await client.get("/", headers=BROWSER)
    assert answer.headers["refresh"] == "15; url=/"
    assert "script" not in [tag for tag, _ in Elements(answer.text).found]
    assert "make web" in text_of(answer.text)
    monkeypatch.setattr(pages, "live_files_present", lambda: True)
    answer = await client.get("/", headers=BROWSER)
    assert "refresh" not in answer.headers
    found = Elements(answer.text).found
    scripts = [attrs["src"] for tag, attrs in found if tag == "script"]
    assert scripts == ["/static/vendor/htmx.min.js", "/static/vendor/sse.min.js", "/static/page.js"]
    assert [a["http-equiv"] for tag, a in found if tag == "meta" and "http-equiv" in a]


async def test_every_control_has_a_label_and_every_page_one_heading(
    browser: Browser, hall: MemoryHall
) -> None:
    hall.run_cycle([alarm("leak:r01", "water at r01")])
    for path in (
        "/",
        "/override",
        "/modes",
        "/release",
        "/acknowledge?key=x",
        "/single-line",
        "/single-line?fail=pdu-a",
    ):
        found = Elements(await browser.open(path)).found
        labelled = {attrs.get("for") for tag, attrs in found if tag == "label"}
        for tag, attrs in found:
            if tag in ("input", "select") and attrs.get("type") != "hidden":
                assert attrs.get("id") in labelled, (path, attrs)
            if tag == "svg":
                assert attrs.get("aria-label"), path
            if tag == "th":
                assert attrs.get("scope"), path
        assert [tag for tag, _ in found].count("h1") == 1, path
        assert ("html", {"lang": "en"}) in found


@pytest.mark.parametrize("name", sorted(p.name for p in TEMPLATES.iterdir()))
def test_templates_hold_no_inline_script_style_or_handler(name: str) -> None:
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    elements = Elements(text)
    assert elements.inline == []
    assert "style" not in [tag for tag, _ in elements.found]
    for tag, attrs in elements.found:
        assert not [a for a in attrs if a.startswith("on") or a == "style"], (name, tag)
        assert tag != "script" or attrs.get("src", "").startswith("/static/"), name  # type: ignore[union-attr]
    assert "|safe" not in text
    assert "javascript:" not in text
    assert not re.search(r"https?://", text)


def test_static_files_fetch_nothing_from_elsewhere() -> None:
    for file in STATIC.iterdir():
        if file.is_file():
            text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
            assert not re.search(r"(https?:)?//[a-z]", text), file.name


def _luminance(colour: str) -> float:
    """Relative luminance of WCAG 2.2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_text_has_the_contrast_of_wcag_aa_in_both_themes() -> None:
    style = (STATIC / "page.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", style, re.DOTALL)[:2]
    text_on = [
        ("text", "ground"), ("text", "panel"), ("text", "button"), ("text", "rail"),
        ("soft", "ground"), ("soft", "panel"), ("link", "panel"), ("link", "ground"),
        ("bar-text", "bar"), ("bad", "panel"), ("bad", "ground"), ("bad", "bad-ground"),
        ("watch", "panel"), ("watch", "ground"), ("watch", "watch-ground"), ("panel", "bad"),
        ("text", "bad-ground"), ("text", "watch-ground"),
    ]  # fmt: skip
    for theme in (light, dark):
        colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", theme))
        for front, back in text_on:
            assert _contrast(colours[front], colours[back]) >= 4.5, (front, back)
        for front, back in (("now", "rail"), ("soft", "button"), ("focus", "panel")):
            assert _contrast(colours[front], colours[back]) >= 3.0, (front, back)


async def test_a_years_chart_is_made_from_roll_ups_and_says_so(
    browser: Browser, hall: MemoryHall
) -> None:
    page = await browser.open("/history?point=pdu-r01-a:total:active_power&hours=8760")
    assert "of 131400 s each, summed up by quarters of an hour" in page
    assert "&amp;step=131400" in page or "&step=131400" in page
    day = await browser.open("/history?point=pdu-r01-a:total:active_power&hours=24")
    assert "of 360 s each;" in day


async def test_the_past_of_a_point_is_drawn_with_its_gaps(
    client: httpx2.AsyncClient,
    browser: Browser,
    hall: MemoryHall,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for minute in range(6):
        hall.clock.turn(60)
        hall.dead = {"pdu-r01-a"} if minute == 3 else set()
        hall.scan()
    monkeypatch.setattr(pages, "chart_files_present", lambda: False)
    page = await browser.open("/history?point=pdu-r01-a:total:active_power&hours=1")
    assert "pdu-r01-a active power, W" in text_of(page)
    assert "have none and are left open" in text_of(page)
    assert "<path" in page
    assert "script" not in [tag for tag, _ in Elements(page).found]
    monkeypatch.setattr(pages, "chart_files_present", lambda: True)
    page = await browser.open("/history?point=pdu-r01-a:total:active_power&hours=x")
    (source,) = [a["data-source"] for _, a in Elements(page).found if "data-source" in a]
    samples = (await client.get(str(source))).json()["samples"]
    assert {sample["mean"] for sample in samples} == {None, 11_800.0}
    await browser.open("/history?point=nope", 404)


async def test_a_lost_element_is_told_in_the_controllers_own_words(
    browser: Browser, hall: MemoryHall
) -> None:
    hall.rack_load_w = 12_000.0
    said = "PDU-B is lost since 03:12:04 CET, and nothing is overloaded. Restore PDU-B."
    hall.run_cycle(
        headroom=await hall.what_if(["pdu-b"]),
        sentence=said,
        losses={"lost": ["pdu-b"], "suspected": [], "because": {}},
    )
    page = await browser.open("/")
    seen = text_of(page)
    assert said in seen
    assert "Any single loss is survivable" not in seen
    assert 'class="top degraded"' in page


async def test_a_dark_hall_has_no_check_mark(browser: Browser, hall: MemoryHall) -> None:
    hall.rack_load_w = 12_000.0
    for lost, state in (["pdu-a", "pdu-b"], "bad"), (["pdu-a"], "degraded"):
        hall.run_cycle(headroom=await hall.what_if(lost), sentence="As the controller says.")
        assert f'class="top {state}"' in await browser.open("/")


async def test_a_pump_that_stands_takes_the_check_mark_away(
    browser: Browser, hall: MemoryHall
) -> None:
    hall.rack_load_w = 12_000.0
    said = "CDU-1's pumps stand; cooling has no spare pump."
    hall.run_cycle(sentence=said, trouble=["pump_lost:cdu-1"])
    page = await browser.open("/")
    assert said in text_of(page).replace("&#39;", "'")
    assert 'class="top degraded"' in page


async def test_no_caps_fit_is_said_in_one_place(browser: Browser, hall: MemoryHall) -> None:
    missing = {
        "element": "row1-a",
        "case": "normal",
        "kw": 12.0,
        "would_fix": "lower floors of nodes on row1-a by 12.0 kW in all",
    }
    hall.run_cycle(allocation={"missing": missing}, sentence="No caps fit. Lower floors.")
    assert text_of(await browser.open("/")).count("No caps fit") == 1
    hall.run_cycle(allocation={"missing": missing}, sentence="Redundancy is lost.")
    seen = text_of(await browser.open("/"))
    assert "No caps fit: row1-a, normal lacks 12.0 kW. Lower floors of nodes on row1-a" in seen
    assert seen.count("No caps fit") == 1


async def test_losses_prices_and_what_no_plan_can_fit_are_said(
    browser: Browser, hall: MemoryHall
) -> None:
    hall.run_cycle(
        losses={"lost": ["pdu-b"], "suspected": ["ups-a3"], "because": {}},
        allocation={
            "nodes": {"r01-n1": {"because": "held"}},
            "prices": [
                {"element": "row1-a", "case": "loss of pdu-b", "tok_s_per_kw": 41.2},
                {"element": "row2-a", "case": "loss of pdu-b", "tok_s_per_kw": 12.0},
                {"element": "ups-a1", "case": "normal", "tok_s_per_kw": None},
            ],
            "missing": {
                "element": "row1-a",
                "case": "loss of pdu-b",
                "kw": 12.0,
                "would_fix": "Switch off r01.",
            },
        },
    )
    seen = text_of(await browser.open("/"))
    assert "Lost now: pdu-b." in seen
    assert "Perhaps lost, on one sign only: ups-a3." in seen
    assert "No caps fit: row1-a, loss of pdu-b lacks 12.0 kW. Switch off r01." in seen
    assert "One more kW on row1-a (loss of pdu-b) is worth 41 tok/s." in seen
    hall.run_cycle(
        allocation={
            "prices": [{"element": "row1-a", "case": "loss of pdu-b", "tok_s_per_kw": 41.2}],
            "together": [["row1-a", "row1-b"]],
        }
    )
    seen = text_of(await browser.open("/"))
    assert "One more kW on row1-a and row1-b each is worth 41 tok/s." in seen


async def test_a_late_cycle_is_said(browser: Browser, hall: MemoryHall) -> None:
    hall.cycle_age_s = 42.0
    assert "The control cycle is late: 42 s since the last one." in text_of(await browser.open("/"))


async def test_a_big_hall_shows_its_tightest_racks(hall: MemoryHall) -> None:
    from api.picture import racks
    from api.web.overview import RACKS_SHOWN, rack_rows

    one = racks(hall)[0]
    many = [replace(one, rack=f"r{i}", headroom_w=float(i)) for i in range(500, 0, -1)]
    rows = rack_rows(many)
    assert len(rows) == RACKS_SHOWN
    assert rows[0]["rack"] == "r1"


async def test_a_slow_device_is_not_said_to_be_silent(
    hall: MemoryHall, monkeypatch: pytest.MonkeyPatch
) -> None:
    from api.picture import trust

    states = dict(zip((d.id for d in hall.devices()), ("slow", "bad"), strict=False))
    late, silent = states
    said = [replace(d, state=states.get(d.id, "good")) for d in hall.devices()]
    monkeypatch.setattr(hall, "devices", lambda: said)
    seen = trust(hall)
    assert seen.devices_bad == (silent,)
    assert seen.text.endswith(f"Not answering: {silent}. Slow to answer: {late}.")
