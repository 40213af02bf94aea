"""Pages of Prometheus text for captures: the lines that a profile reads, labels scrubbed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from drivers.capture.file import Page
from drivers.capture.scrubbing import Scrubber
from drivers.profile import Profile, PrometheusWhere
from drivers.prometheus.page import Lines, TooMany, declared_in, labels_of

#: labels that tell of a product or of a place in it, never of a site
PRODUCT: Final = frozenset({"modelName", "DCGM_FI_DRIVER_VERSION", "GPU_I_PROFILE"})
#: numbers of boards, ranks and instances have no more digits
DIGITS: Final = 4


def kept_page(
    body: bytes, at_ms: int, profile: Profile, scrub: Scrubber, *, open_metrics: bool
) -> Page:
    """The lines of a page that the profile reads.

    A line that cannot be read stays one that cannot be read, without its text. Comments, exemplars
    and every other family are left out; that a family is declared is kept.
    """
    wanted = _wanted(profile)
    lines = [f"# TYPE {name} untyped" for name in sorted(declared_in(body, wanted))]
    try:
        for line in Lines(wanted).find(body):
            name = line.name.decode()
            labels = labels_of(line.labels)
            if labels is None or line.number is None:
                lines.append(f"{name} unreadable")
                continue
            inner = ",".join(
                f'{label}="{_escaped(text)}"'
                for label, text in _scrubbed(labels, wanted[name], scrub).items()
            )
            time = "" if line.time is None else f" {line.time:.15g}"
            lines.append(f"{name}{{{inner}}} {line.number!r}{time}")
    except TooMany:
        lines.append(f"{next(iter(wanted))} unreadable")
    return Page(tuple(lines), at_ms, open_metrics)


def _wanted(profile: Profile) -> Mapping[str, list[PrometheusWhere]]:
    """Metric -> the places that read it."""
    identity = profile.identity
    told = (*identity.vendor, *identity.model, *identity.firmware)
    wheres: Iterable[PrometheusWhere | None] = (
        *(entry.at.prometheus for entry in profile.points),
        *(source.at.prometheus for source in told if source.at is not None),
    )
    found: dict[str, list[PrometheusWhere]] = {}
    for where in wheres:
        for series in () if where is None else where.any_of:
            assert where is not None
            found.setdefault(series.metric, []).append(where)
    return found


def _scrubbed(
    labels: Mapping[str, str], wheres: Collection[PrometheusWhere], scrub: Scrubber
) -> dict[str, str]:
    asked: dict[str, set[str]] = {}
    for where in wheres:
        for series in where.any_of:
            for name, values in series.labels:
                asked.setdefault(name, set()).update(values)
    return {
        name: text
        if name in PRODUCT
        or text in asked.get(name, ())
        or (text.isascii() and text.isdigit() and len(text) <= DIGITS)
        else scrub.name(text)
        for name, text in labels.items()
    }


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
