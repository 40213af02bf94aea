"""What a BMS says about its points: whose they are, in which unit, and whom the object serves.

Everything here comes from another system and is read defensively: a message of another shape says
nothing, and one point of a bad shape costs no other point.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from facility.kinds import Kind
from facility.units import UNITS

ROOT: Final = "BMS/v1"
PUBLIC: Final = "PUB"
METADATA: Final = f"{ROOT}/{PUBLIC}/Metadata"
#: No point needs more to be described; a longer message is no metadata.
MAX_BYTES: Final = 16_384
LONGEST_NAME: Final = 200
#: bytes of a topic; each is kept, some times over
LONGEST_TOPIC: Final = 1_024
MOST_SERVED: Final = 2_000
MOST_STATES: Final = 256

#: words for units that a BMS writes -> ours, in small letters and without spaces
UNIT_WORDS: Final = {
    "c": "degC",
    "°c": "degC",
    "degc": "degC",
    "f": "degF",
    "°f": "degF",
    "degf": "degF",
    "lpm": "L/min",
    "l/min": "L/min",
    "m3/h": "m3/h",
    "m³/h": "m3/h",
    "kpa": "kPa",
    "pa": "Pa",
    "bar": "bar",
    "psi": "psi",
    "%": "%",
    "%rh": "%",
    "rpm": "rpm",
    "v": "V",
    "kv": "kV",
    "a": "A",
    "ka": "kA",
    "w": "W",
    "kw": "kW",
    "va": "VA",
    "kva": "kVA",
    "hz": "Hz",
}
_PHASES: Final = {"1": "A", "2": "B", "3": "C", "A": "A", "B": "B", "C": "C"}


@dataclass(frozen=True, slots=True)
class PointMeta:
    """One point of the Exchange.

    Attributes:
        object_type, point_type, tag: of the topic.
        object_id, object_name: whose point it is; of a rack its location; of a point in associate
            mode the object that it is part of, without a name.
        part_of: whether the object was only named as an associate.
        serves: objectIds that the object serves.
        area: words of processArea, in small letters.
        unit: engUnit as written, None where it has none.
        states: number -> words of stateText.
        integration: who publishes the value; None: the BMS itself.
        scope: of a heartbeat: which topics it stands for.
    """

    object_type: str
    point_type: str
    tag: str
    object_id: str
    object_name: str
    part_of: bool
    serves: tuple[str, ...]
    area: frozenset[str]
    phase: str | None
    unit: str | None
    states: tuple[tuple[int, str], ...]
    setpoint: bool
    integration: str | None
    scope: str | None

    @property
    def value_topic(self) -> str:
        """Where its values are published: the metadata's topic with the publisher put in."""
        publisher = self.integration or PUBLIC
        return f"{ROOT}/{publisher}/Value/{self.object_type}/{self.point_type}/{self.tag}"


def read_metadata(topic: str, payload: bytes) -> PointMeta | None:
    """The point that a metadata message describes; None when it describes none."""
    levels = topic.removeprefix(f"{METADATA}/").split("/", 2)
    if not topic.startswith(f"{METADATA}/") or len(levels) != 3:
        return None
    if len(payload) > MAX_BYTES or len(topic.encode()) > LONGEST_TOPIC:
        return None
    try:
        body = json.loads(payload.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    object_type, point_type, tag = levels
    rack = object_type == "Rack"
    own = _text(body.get("rackLocationId" if rack else "objectId"))
    host = None if rack or own is not None else _text(body.get("associateId"))
    object_id = own or host
    # The topic is what we subscribe by: a payload that names another point is not believed.
    told = (body.get("objectType", object_type), body.get("pointType", point_type))
    if object_id is None or told != (object_type, point_type):
        return None
    unit, states = _text(body.get("engUnit")), _states(body.get("stateText"))
    integration = _text(body.get("integration"))
    if (unit is not None and states) or (integration is not None and set(integration) & set("/+#")):
        return None
    phase = body.get("phase")
    return PointMeta(
        object_type,
        point_type,
        tag,
        object_id,
        _text(body.get("rackLocationName" if rack else "objectName")) or object_id,
        host is not None,
        _texts(body.get("servesId"))[:MOST_SERVED],
        frozenset(word.casefold() for word in _texts(body.get("processArea"))),
        _PHASES.get(phase) if isinstance(phase, str) else None,
        unit,
        states,
        body.get("isSetpoint") is True,
        integration,
        _text(body.get("scope")),
    )


def factors(unit: str | None, kind: Kind) -> tuple[float, float] | None:
    """Scale and offset from an engUnit to the canonical unit of a kind.

    Returns:
        None when the unit does not measure this kind. A plain number measures what has no unit.

    Raises:
        ValueError: a word that is no unit we know.
    """
    if unit is None:
        return (1.0, 0.0) if kind.unit in ("1", "code", "bool") else None
    word = UNIT_WORDS.get("".join(unit.split()).casefold())
    if word is None:
        raise ValueError(f"no unit {unit[:40]!r}")
    if word == kind.unit:
        return 1.0, 0.0
    return UNITS.get(kind.quantity or "", {}).get(word)


def _text(raw: Any) -> str | None:
    if not isinstance(raw, str):
        return None
    text = raw.strip()
    return text if 0 < len(text) <= LONGEST_NAME and text.isprintable() else None


def _texts(raw: Any) -> tuple[str, ...]:
    if not isinstance(raw, list):
        return ()
    return tuple(dict.fromkeys(text for each in raw if (text := _text(each)) is not None))


def _states(raw: Any) -> tuple[tuple[int, str], ...]:
    if not isinstance(raw, list):
        return ()
    found = {}
    for each in raw[:MOST_STATES]:
        value = each.get("value") if isinstance(each, dict) else None
        text = _text(each.get("text")) if isinstance(each, dict) else None
        if type(value) is int and abs(value) < 2**31 and text is not None:
            found[value] = text
    return tuple(sorted(found.items()))
