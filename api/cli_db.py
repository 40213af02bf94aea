"""The commands of `wattkeeper db`; like `api.cli`, it imports their work only when it is wanted."""

from __future__ import annotations

from typing import Annotated

import typer

db = typer.Typer(help="The database: schema, backup, restore, API keys.", no_args_is_help=True)
key = typer.Typer(help="API keys.", no_args_is_help=True)
db.add_typer(key, name="key")

Url = Annotated[str, typer.Option("--url", help="SQLAlchemy URL of the database.")]


@db.command("upgrade")
def db_upgrade(url: Url) -> None:
    """Bring the schema up to date."""
    from api.commands.db import upgrade

    raise typer.Exit(upgrade(url))


@db.command("check")
def db_check(
    url: Url,
    state: Annotated[
        str | None, typer.Option(help="Folder of the service's state, to check its spill too.")
    ] = None,
) -> None:
    """Whether schema and program agree, every sample can be read, and the audit is unaltered."""
    from api.commands.db import check as run

    raise typer.Exit(run(url, state))


@db.command("backup")
def db_backup(file: str, url: Url) -> None:
    """Write a backup."""
    from api.commands.db import backup

    raise typer.Exit(backup(url, file))


@db.command("restore")
def db_restore(
    file: str,
    url: Url,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Take the place of a database that is there.")
    ] = False,
) -> None:
    """Restore a backup into an empty database."""
    from api.commands.db import restore

    raise typer.Exit(restore(url, file, overwrite=overwrite))


@db.command("grafana-role")
def db_grafana_role(
    role: str,
    url: Url,
    sql: Annotated[bool, typer.Option("--sql", help="Only print the statements.")] = False,
) -> None:
    """Make a PostgreSQL role that may read the views and nothing else."""
    from api.commands.db import reader

    raise typer.Exit(reader(url, role, only_print=sql))


@key.command("add")
def key_add(
    name: str,
    url: Url,
    role: Annotated[str, typer.Option(help="viewer, operator or engineer.")] = "viewer",
) -> None:
    """Make an API key and print it once."""
    from api.commands.keys import add

    raise typer.Exit(add(url, name, role))


@key.command("list")
def key_list(url: Url) -> None:
    """List the API keys."""
    from api.commands.keys import show

    raise typer.Exit(show(url))


@key.command("revoke")
def key_revoke(number: int, url: Url) -> None:
    """Revoke an API key by its number in the list."""
    from api.commands.keys import revoke

    raise typer.Exit(revoke(url, number))
