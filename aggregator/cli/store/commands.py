"""`aggregator backup|restore|migrate-store|prune`: the options of the commands and their help."""

from pathlib import Path
from typing import Annotated

import typer

from aggregator.cli.runtime.run_command import AsJson, Config, database_settings, run

store_app = typer.Typer()

Unproven = Annotated[
    bool, typer.Option("--unproven", help="Take the audit log as it is, without the proof that it is whole.")
]


@store_app.command()
def backup(
    file: Annotated[
        Path | None,
        typer.Argument(help="The file to write, a folder for it, or - for stdout. Default: here.", show_default=False),
    ] = None,
    audit: Annotated[bool, typer.Option("--audit/--no-audit", help="With the audit log.")] = True,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Write the database into one file, while processes use it: for SQLite and PostgreSQL alike."""
    from aggregator.cli.store.backup import run as run_backup

    run(run_backup, database_settings(config).url, file, audit, force, as_json)


@store_app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="The file of a backup, or - for stdin.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Move a database that is not empty aside, and take its place.")
    ] = False,
    unproven: Unproven = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Fill an empty database from a backup, whole and proven, or not at all. Nothing may serve from it meanwhile."""
    from aggregator.cli.store.restore import run as run_restore

    run(run_restore, database_settings(config), file, replace, unproven, as_json)


@store_app.command("migrate-store")
def migrate_store(
    to: Annotated[
        str, typer.Option("--to", help="The URL of an empty database, as `storage` in the configuration has it.")
    ],
    unproven: Unproven = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Copy everything into another database, SQLite or PostgreSQL, and print the line to change."""
    from aggregator.cli.store.migrate_store import run as run_migrate_store

    run(run_migrate_store, database_settings(config), to, unproven, as_json)


@store_app.command()
def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Only say what would go.")] = False,
    before: Annotated[
        str | None,
        typer.Option(
            help="Remove audit rows older than this, whatever `audit.keep_for` says: 30d, or a date.",
            show_default=False,
        ),
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Remove expired rows now: old audit rows, approvals, sessions, definitions of tools."""
    from aggregator.cli.store.prune import run as run_prune

    run(run_prune, database_settings(config), dry_run, before, as_json)
