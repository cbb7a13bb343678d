"""What `tests/once.py` lets tests share is shared: a library that loads what is patched only later would undo it."""

import httpx2
import typer.main

from aggregator.cli.commands import app
from aggregator.storage import opening


def test_clients_share_what_they_trust() -> None:
    assert httpx2.create_ssl_context() is httpx2.create_ssl_context()


def test_commands_are_built_once() -> None:
    assert typer.main.get_command(app) is typer.main.get_command(app)


def test_new_databases_are_copies() -> None:
    assert hasattr(opening._ready, "made")
