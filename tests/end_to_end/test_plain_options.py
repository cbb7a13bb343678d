"""Command lines that are read without typer mean what typer reads."""

from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from aggregator.cli import commands, stdio, workers
from aggregator.cli.plain_options import CHOICES, VALUED, plain_options


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--config", "a.json"],
        ["-c", "a b.json", "--log-json"],
        ["--names", "canonical", "--log-level", "debug", "--config", "a.json", "--log-json"],
        ["serve", "--host", "::1", "--port", "0"],
        ["serve", "--port", "65535"],
        ["serve", "--workers", "auto"],
        ["serve", "--workers", "4", "--port", "1"],
        ["stdio", "--agent", "me"],
        ["stdio", "--expose", "search"],
    ],
)
def test_a_plain_command_line_means_what_typer_reads(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for command, module in {"serve": workers, "stdio": stdio}.items():
        if words[:1] in (["serve"], ["stdio"]) and words[0] != command:
            continue
        given = words if words[:1] == [command] else [command, *words]
        seen: list[dict[str, Any]] = []
        names = module.run.__code__.co_varnames[: module.run.__code__.co_argcount]

        def run(*args: Any, names: tuple[str, ...] = names, seen: list[dict[str, Any]] = seen) -> int:
            seen.append(dict(zip(names, args, strict=True)))
            return 0

        with monkeypatch.context() as patch:
            patch.setattr(module, "run", run)
            done = CliRunner().invoke(commands.app, given)
        assert done.exit_code == 0, done.output
        assert plain_options(given) == (command, seen[0])


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["check"],
        ["--help"],
        ["stdio", "--help"],
        ["stdio", "--config"],
        ["stdio", "--config", "--log-json"],
        ["stdio", "--config", "a", "--config", "b"],
        ["stdio", "-c", "a", "--config", "b"],
        ["stdio", "--config=a"],
        ["stdio", "--names", "other"],
        ["stdio", "--agent", "\udcff"],
        ["stdio", "--agent", ""],
        ["stdio", "a.json"],
        ["stdio", "--port", "1"],
        ["serve", "--agent", "me"],
        ["serve", "--port", "65536"],
        ["serve", "--port", "-1"],
        ["serve", "--port", "many"],
        ["serve", "--workers", "many"],
        ["serve", "--workers", "-1"],
        ["serve", "--log-level", "loud"],
    ],
)
def test_any_other_command_line_is_left_to_typer(words: list[str]) -> None:
    assert plain_options(words) is None


@pytest.mark.parametrize("command", VALUED)
def test_every_option_of_a_command_is_known(command: str) -> None:
    parameters = get_command(commands.app).commands[command].params  # type: ignore[attr-defined]
    assert {option for one in parameters for option in one.opts} == {*VALUED[command], "--log-json"}
    choices = {"names": commands.NameStyle, "expose": commands.ListedTools, "log_level": commands.Level}
    assert {name: tuple(choice) for name, choice in choices.items()} == CHOICES
