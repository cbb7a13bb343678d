"""Every command of the command line hands its options to the function that does its work."""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
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
# Options that are read on the way: each has tests of its own.
_READ: Final = {
    ("add", one) for one in ("words", "env", "header", "answer", "transport", "per", "timeout", "no_connect")
} | {("secrets set", "context")}


def _run(monkeypatch: pytest.MonkeyPatch, name: str, given: Mapping[str, Any]) -> list[Any]:
    """Run a command with these options and with what it needs; return every value that its function gets."""
    began: list[inspect.BoundArguments] = []
    settings: list[Any] = []

    def begin(work: Callable[..., int], *args: Any, **options: Any) -> None:
        began.append(inspect.signature(work).bind(*args, **options))

    def read(config: Any) -> _Anything:
        settings.append(config)
        return _Anything()

    call = COMMANDS[name]
    there = sys.modules[call.__module__]
    for member, value in (("run", begin), ("database_settings", read)):
        if hasattr(there, member):
            monkeypatch.setattr(there, member, value)
    needed = [
        known.name for known in inspect.signature(call).parameters.values() if known.default is inspect.Parameter.empty
    ]
    call(**{**{one: _Anything() for one in needed}, **_OPTIONS.get(name, {}), **given})
    (bound,) = began
    return [*settings, *_parts(bound.arguments)]


def _parts(value: Any) -> Iterator[Any]:
    """Yield a value and all that is in it."""
    yield value
    inner: Iterable[Any] = ()
    if isinstance(value, Mapping):
        inner = value.values()
    elif isinstance(value, list | tuple):
        inner = value
    elif is_dataclass(value):
        inner = (getattr(value, field.name) for field in fields(value))
    for one in inner:
        yield from _parts(one)


def test_the_commands_are_found() -> None:
    assert {"serve", "keys new", "audit anchor", "restore"} <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_hands_on_its_options(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Its function gets each of them, alone and beside all others; it runs once."""
    names = [one for one in inspect.signature(COMMANDS[name]).parameters if (name, one) not in _READ]
    for chosen in ([], *([one] for one in names), names):
        given = {one: _Anything() for one in chosen}
        got = {id(value) for value in _run(monkeypatch, name, given)}
        assert not [one for one, value in given.items() if id(value) not in got]
