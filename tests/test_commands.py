"""Every command of the command line hands its options to the function that does its work."""

import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
import typer

from aggregator.cli.commands import app

# Prints by itself.
_ALONE: Final = frozenset({"version"})
# What a command asks for before it begins.
_OPTIONS: Final[dict[str, dict[str, Any]]] = {"add": {"words": ["box", "http://127.0.0.1:1/mcp"]}}


class _Anything:
    """A value with whatever members a command asks for."""

    def __getattr__(self, name: str) -> "_Anything":
        return self


def _commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, (*words, name))
    if not hasattr(command, "commands"):
        yield " ".join(words), inspect.unwrap(command.callback)


COMMANDS: Final = {name: call for name, call in _commands(typer.main.get_command(app)) if name not in _ALONE}


def test_the_commands_are_found() -> None:
    assert {"serve", "keys new", "audit anchor", "restore"} <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_does_its_work(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Once, with as many options as the function takes."""
    began: list[inspect.BoundArguments] = []

    def begin(work: Callable[..., int], *args: Any, **options: Any) -> None:
        began.append(inspect.signature(work).bind(*args, **options))

    call = COMMANDS[name]
    there = sys.modules[call.__module__]
    for member, value in (("run", begin), ("database_settings", lambda config: _Anything())):
        if hasattr(there, member):
            monkeypatch.setattr(there, member, value)
    needed = [
        known.name for known in inspect.signature(call).parameters.values() if known.default is inspect.Parameter.empty
    ]
    call(**{one: _Anything() for one in needed}, **_OPTIONS.get(name, {}))
    assert len(began) == 1
