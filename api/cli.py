"""The command line. It imports the work of a command only when the command is given.

Exit codes: 0 done, 1 the answer is "no", 2 usage, 70 internal.
"""

from __future__ import annotations

import os
from typing import Annotated, Literal

import typer

from api.cli_db import db

# The matrices of a hall are small: a second thread of the linear algebra gains nothing, and where
# the cores are busy each product waits for it, 50 ms instead of one. Set before NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

app = typer.Typer(
    name="wattkeeper",
    help="Power and cooling control for GPU halls.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(db, name="db")
import_ = typer.Typer(
    help="Bring a hall in from other systems: shows what would change, --write does it.",
    no_args_is_help=True,
)
app.add_typer(import_, name="import")

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Config = Annotated[str, typer.Option("--config", metavar="FILE", help="The facility file.")]
Fail = Annotated[
    list[str] | None,
    typer.Option("--fail", metavar="ELEMENT", help="Count this element as lost; may be repeated."),
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Of page and API; 0 takes a free one.")]
POLLED = "snmp://host, modbus://host/unit, http://host:port/path or mqtt://broker/topic."
WARNINGS = 30  # logging.WARNING, without importing logging for --help
Policy = Literal["efficiency", "throughput"]
Loads = Annotated[
    str | None,
    typer.Option(
        "--loads", metavar="LOADS.json", help="Measured or planned loads: JSON, see README."
    ),
]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"wattkeeper {version('wattkeeper')}")
        raise typer.Exit


@app.callback()
def prepare(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Say which, and stop."),
    ] = False,
) -> None:
    """Power and cooling control for GPU halls."""
    from api.commands.logs import log_to_stderr

    log_to_stderr(WARNINGS)


@app.command()
def demo(
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="Stop after this long, e.g. 120s.")
    ] = None,
    scenario: Annotated[str, typer.Option(help="What happens to the plant.")] = "steady",
    seed: Annotated[int, typer.Option(min=0, help="Of the plant's chance.")] = 1,
    config: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="Simulate this facility.")
    ] = None,
    record: Annotated[
        str | None, typer.Option("--record", metavar="FILE", help="Record for `replay`.")
    ] = None,
    port: Port = 8080,
    broker: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Use this MQTT broker (mqtt://host:port), not our own."),
    ] = None,
    json: Json = False,
) -> None:
    """Simulate a hall on loopback, over real protocols, and run it."""
    from api.commands.demo import run

    raise typer.Exit(run(for_, scenario, seed, config, record, port, broker, json=json))


@app.command()
def serve(
    config: Config,
    host: Annotated[str, typer.Option(help="Address that page and API listen on.")] = "127.0.0.1",
    port: Port = 8080,
    state: Annotated[
        str, typer.Option(metavar="DIR", help="Where the journal's spill file and locks live.")
    ] = ".",
    record: Annotated[
        str | None, typer.Option("--record", metavar="FILE", help="Record for `replay`.")
    ] = None,
    overlay: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="JSON that a simulation writes: addresses and services instead of the file's.",
        ),
    ] = None,
) -> None:
    """Run the service of a hall."""
    from api.commands.serve import run

    raise typer.Exit(run(config, host, port, state, record, overlay))


@app.command()
def agent(
    config: Annotated[str, typer.Option("--config", metavar="FILE", help="The agent's file.")],
) -> None:
    """Run the agent of one GPU node (needs the right to set power limits)."""
    from api.commands.agent import agent as run

    raise typer.Exit(run(config))


@app.command()
def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE...")], json: Json = False
) -> None:
    """Check facility files: shape, then meaning; halls that share elements together."""
    from api.commands.check import run

    raise typer.Exit(run(files, json=json))


@app.command()
def poll(
    target: Annotated[str, typer.Option(help=POLLED)],
    profile: Annotated[str, typer.Option(help="Profile name, or auto.")] = "auto",
    auth: Annotated[
        str | None,
        typer.Option(help="Variable (or file:PATH) with the SNMP community, or a v3 user as JSON."),
    ] = None,
    community: Annotated[
        str | None, typer.Option(help="SNMP v2c community; public if not named.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="One look, then stop.")] = False,
    record: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a capture, scrubbed.")
    ] = None,
    json: Json = False,
    reader: Annotated[str, typer.Option(help="own, or reference: pysnmp, pymodbus.")] = "own",
) -> None:
    """Read a device without writing to it."""
    from api.commands.poll import poll as run

    raise typer.Exit(run(profile, target, auth, community, once, record, json, reader))


@app.command()
def headroom(file: str, loads: Loads = None, fail: Fail = None, json: Json = False) -> None:
    """Prove which single losses a hall survives; no server needed."""
    from api.commands.studies import headroom as run

    raise typer.Exit(run(file, loads, fail or [], json))


@app.command()
def allocate(
    file: str,
    loads: Loads = None,
    fail: Fail = None,
    policy: Annotated[Policy, typer.Option(help="What the caps are for.")] = "efficiency",
    json: Json = False,
) -> None:
    """Find the GPU power caps of a hall; no server needed."""
    from api.commands.studies import allocate as run

    raise typer.Exit(run(file, loads, fail or [], policy, json))


@app.command()
def capacity(
    file: str,
    rack: Annotated[str | None, typer.Option(help="Can it take one more server?")] = None,
    row: Annotated[str | None, typer.Option(help="Can it take one more rack?")] = None,
    add: Annotated[
        str | None, typer.Option(metavar="POWER", help="Of what is added, e.g. 10kW.")
    ] = None,
    like: Annotated[str | None, typer.Option(help="Rack whose feeds a new one gets.")] = None,
    phase: Annotated[
        Literal["L1", "L2", "L3"] | None, typer.Option(help="Of a single-phase server.")
    ] = None,
    units: Annotated[int | None, typer.Option(min=1, help="Rack units that it needs.")] = None,
    weight: Annotated[str | None, typer.Option(metavar="MASS", help="E.g. 90kg.")] = None,
    ports: Annotated[int | None, typer.Option(min=0, help="Liquid ports that it needs.")] = None,
    lot: Annotated[int, typer.Option(min=1, help="Racks that come together.")] = 1,
    margin: Annotated[str, typer.Option(help="Part of every limit to keep free.")] = "5%",
    loads: Loads = None,
    json: Json = False,
) -> None:
    """Say what a hall can still take, what binds, and what is fed or sized wrongly."""
    from api.commands.capacity import Asked, run

    asked = Asked(rack, row, add, like, phase, units, weight, ports, lot, margin)
    raise typer.Exit(run(file, loads, asked, json=json))


@app.command()
def release(
    scope: str,
    url: Annotated[str, typer.Option(help="Of the running service.")] = "http://127.0.0.1:8080",
    reason: Annotated[str, typer.Option(help="Kept in the audit.")] = "released by command line",
    json: Json = False,
) -> None:
    """Give a scope (hall, rack:r01, loop:loop-1) back to local control."""
    from api.commands.release import run

    raise typer.Exit(run(scope, url, reason, json=json))


@app.command()
def switching(
    element: str,
    at: Annotated[
        str | None, typer.Option(metavar="ISO8601", help="Start, with its zone; now if left out.")
    ] = None,
    for_: Annotated[str, typer.Option("--for", help="How long: 2h, 90min.")] = "2h",
    url: Annotated[str, typer.Option(help="Of the running service.")] = "http://127.0.0.1:8080",
    json: Json = False,
) -> None:
    """Ask whether an element may be opened then; a signed answer, step by step."""
    from api.commands.switching import ask

    raise typer.Exit(ask(element, at, for_, url, json=json))


@app.command()
def verify(
    file: Annotated[str, typer.Argument(help="A statement as JSON; - for standard input.")],
    key: Annotated[str, typer.Option(help="Public key of the site (GET /statements/key).")],
    json: Json = False,
) -> None:
    """Check the signature of a statement, without a service."""
    from api.commands.switching import verify as run

    raise typer.Exit(run(file, key, json=json))


@app.command()
def replay(
    file: str,
    with_: Annotated[
        str | None, typer.Option("--with", metavar="new.yaml", help="Decide by this file instead.")
    ] = None,
    json: Json = False,
) -> None:
    """Recompute recorded decisions and compare them bit for bit."""
    from api.commands.replay import run

    raise typer.Exit(run(file, with_, json=json))


@app.command()
def bench(name: str, json: Json = False) -> None:
    """Run a benchmark, from a checkout."""
    from api.commands.bench import run

    raise typer.Exit(run(name, json=json))


Write = Annotated[bool, typer.Option("--write", help="Write the file, not only the diff.")]
Prune = Annotated[bool, typer.Option("--prune", help="Take out what the source no longer has.")]
SiteName = Annotated[str | None, typer.Option("--name", help="Of the site, for a new file.")]
Timezone = Annotated[str | None, typer.Option(help="Of the site, for a new file: Europe/Berlin.")]


@import_.command("csv")
def import_csv(
    folder: str,
    file: str,
    name: SiteName = None,
    timezone: Timezone = None,
    write: Write = False,
    prune: Prune = False,
    json: Json = False,
) -> None:
    """Import elements.csv, racks.csv and other tables of a folder into a facility file."""
    from api.commands.importing import Target, csv

    raise typer.Exit(csv(folder, Target(file, name, timezone, write, prune), json=json))


@import_.command("netbox")
def import_netbox(
    url: str,
    file: str,
    site: Annotated[str, typer.Option(help="Slug of the site in NetBox.")],
    rules: Annotated[
        str | None, typer.Option(metavar="FILE", help="What NetBox does not say; see the docs.")
    ] = None,
    token_env: Annotated[
        str, typer.Option(metavar="NAME", help="Environment variable that holds the token.")
    ] = "NETBOX_TOKEN",
    name: SiteName = None,
    timezone: Timezone = None,
    write: Write = False,
    prune: Prune = False,
    json: Json = False,
) -> None:
    """Import racks, panels, feeds and ports of a NetBox 4.x site into a facility file."""
    from api.commands.importing import Target, netbox

    target = Target(file, name, timezone, write, prune)
    raise typer.Exit(netbox(url, site, rules, token_env, target, json=json))


@import_.command("dsx")
def import_dsx(
    file: str,
    broker: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the file's brokers; else the agents'.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="How long to listen at most.")] = 15.0,
    json: Json = False,
) -> None:
    """Compare what a BMS on the NVIDIA DSX Exchange serves with a facility file; writes nothing."""
    from api.commands.dsx import dsx

    raise typer.Exit(dsx(file, broker, seconds, json=json))


def main() -> None:
    """Entry point: an unexpected error is one line with its place, and exit code 70."""
    try:
        app()
    except Exception as error:
        import traceback

        traceback.print_exc()
        typer.echo(f"wattkeeper: internal error: {error}", err=True)
        raise SystemExit(70) from error


if __name__ == "__main__":
    main()
