"""Read-only views for Grafana and other readers of SQL."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

NAMES = ("v_reading_15m", "v_reading_daily", "v_energy_daily", "v_alarm_change")

# `point.ref` is device:part:kind.
SQLITE = {
    "time": "strftime('%Y-%m-%dT%H:%M:%fZ', {ms} / 1000.0, 'unixepoch')",
    "device": "substr(p.ref, 1, instr(p.ref, ':') - 1)",
    "part": "substr(p.ref, instr(p.ref, ':') + 1, length(p.ref) - instr(p.ref, ':') - 1 - "
    "length({kind}))",
    "kind": "replace(p.ref, rtrim(p.ref, replace(p.ref, ':', '')), '')",
}
POSTGRESQL = {
    "time": "to_timestamp({ms} / 1000.0)",
    "device": "split_part(p.ref, ':', 1)",
    "part": "split_part(p.ref, ':', 2)",
    "kind": "split_part(p.ref, ':', 3)",
}


def _selects(words: dict[str, str]) -> dict[str, str]:
    kind = words["kind"]
    who = f"{words['device']} AS device, {words['part'].format(kind=kind)} AS part, {kind} AS kind"
    at = words["time"].format(ms="r.start_ms")
    numbers = (
        "r.total / NULLIF(r.good, 0) AS mean, r.minimum AS min, r.maximum AS max, "
        "r.first, r.last, r.count AS samples, "
        "CAST(r.good AS double precision) / r.count AS good_fraction"
    )
    joined = "JOIN point p ON p.id = r.point_id"
    return {
        "v_reading_15m": f"SELECT {at} AS time, {who}, {numbers} FROM rollup_15m r {joined}",
        "v_reading_daily": f"SELECT {at} AS time, {who}, {numbers} FROM rollup_1d r {joined}",
        "v_energy_daily": f"SELECT {at} AS time, {who}, r.delta AS energy_wh, "
        "CAST(r.good AS double precision) / r.count AS good_fraction "
        f"FROM rollup_1d r {joined} WHERE p.ref LIKE '%:energy'",
        "v_alarm_change": f"SELECT {words['time'].format(ms='a.at_ms')} AS time, a.key, a.change, "
        "a.text, a.page, a.by_whom, a.note FROM alarm_change a",
    }


def upgrade() -> None:
    sqlite = op.get_bind().dialect.name == "sqlite"
    for name, select in _selects(SQLITE if sqlite else POSTGRESQL).items():
        op.execute(f"CREATE VIEW {name} AS {select}".replace(":", r"\:"))


def downgrade() -> None:
    for name in reversed(NAMES):
        op.execute(f"DROP VIEW {name}")
