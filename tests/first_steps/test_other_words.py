"""The words that other programs use for commands, and the help by kinds of work."""

import re
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from aggregator.cli.command_group import MEANT, SECTIONS
from aggregator.cli.commands import app

COMMANDS: dict[str, Any] = vars(typer.main.get_command(app))["commands"]
COMMAND = re.compile(r"`aggregator ([a-z-]+)(?: ([a-z]+))?")


def test_each_command_is_in_one_section_of_the_help() -> None:
    listed = [name for _, names in SECTIONS for name in names]
    assert sorted(listed) == sorted(COMMANDS)
    shown = CliRunner().invoke(app, ["--help"]).output
    for title, names in SECTIONS:
        assert f"\n{title}:\n" in shown
        for name in names:
            assert re.search(rf"^  {name} +\S", shown, re.MULTILINE)
    assert "..." not in shown.partition("COMMAND [ARGS]...")[2], "no line is cut"


@pytest.mark.parametrize("word", MEANT)
def test_a_word_of_other_programs_leads_to_commands_that_exist(word: str) -> None:
    """`list` and the like are answered with the command that was meant, in capitals too."""
    for typed in (word, word.upper()):
        ended = CliRunner().invoke(app, [typed])
        assert ended.exit_code == 2
        assert f"There is no command '{typed}': " in ended.output
    for command, inner in COMMAND.findall(MEANT[word]):
        assert command in COMMANDS
        groups = vars(COMMANDS[command]).get("commands")
        assert groups is None or not inner or inner in groups
    assert word not in COMMANDS


@pytest.mark.parametrize("words", [("add",), ("pins", "approve"), ("policy",), ()])
def test_help_is_a_command_too(words: tuple[str, ...]) -> None:
    assert CliRunner().invoke(app, ["help", *words]).output == CliRunner().invoke(app, [*words, "--help"]).output


def test_help_of_an_unknown_command_says_so() -> None:
    assert "No such command 'none'" in CliRunner().invoke(app, ["help", "none"]).output
    assert "There is no command 'list'" in CliRunner().invoke(app, ["help", "list"]).output


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_the_version_has_its_usual_options(option: str) -> None:
    assert CliRunner().invoke(app, [option]).output.startswith("aggregator ")
