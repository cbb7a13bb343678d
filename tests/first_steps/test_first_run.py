"""`aggregator` alone and `aggregator init`, as a newcomer meets them in an empty home, at a terminal and without."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aggregator.config.files.find import own_file
from aggregator.config.files.jsonfile import read_object
from aggregator.domain.errors import OperatorError
from tests import ON_WINDOWS
from tests.end_to_end.server_harness import ROOT

from .conftest import AtTerminal, Run

CANARY = "ghp_CANARYcanaryCANARYcanaryCANARYcanary01"


@pytest.fixture
def cursor(home: Path) -> Path:
    """Cursor's file with two servers, one of them with a secret."""
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    servers = {
        "time": {"command": "uvx", "args": ["mcp-server-time"]},
        "hub": {"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": f"Bearer {CANARY}"}},
    }
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


def own(home: Path) -> Path:
    return own_file(os.environ)


def test_without_a_configuration_five_lines_say_what_to_do(at_terminal: AtTerminal, home: Path) -> None:
    code, shown = at_terminal()
    assert code == 0
    assert len(shown.splitlines()) == 5
    assert all(said in shown for said in ("no configuration yet", "aggregator init", "aggregator import", "add time"))
    assert not own(home).exists()


def test_the_servers_of_other_programs_are_offered_and_nothing_is_written_unasked(
    at_terminal: AtTerminal, home: Path, cursor: Path
) -> None:
    code, shown = at_terminal(typed="n\n")
    assert code == 0
    assert "There are 2 servers in Cursor" in shown
    assert not own(home).exists()
    code, shown = at_terminal(typed="y\ny\nkeep\n")
    assert code == 0
    assert list(read_object(own(home))["mcpServers"]) == ["time", "hub"]  # type: ignore[call-overload]
    assert CANARY not in shown


def test_a_program_that_starts_it_alone_gets_the_help(config: Path) -> None:
    """A host or a script: the next steps of a person would say nothing to it, and 0 would say that it works."""
    config.write_text(json.dumps({"mcpServers": {}}))
    program = [sys.executable, "-m", "aggregator"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(program, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "Usage: " in ended.stderr


def test_with_a_configuration_it_says_how_things_stand(at_terminal: AtTerminal, config: Path) -> None:
    servers = {"time": {"command": "uvx"}, "off": {"command": "x", "enabled": False}, "bad": {"comand": "x"}}
    config.write_text(json.dumps({"mcpServers": servers, "http": {"port": 9}}))
    code, shown = at_terminal()
    assert code == 0
    assert f"{config} (your own): 2 servers, 1 switched off, 1 error" in shown
    assert "No gateway answers at http://127.0.0.1:9" in shown
    assert "aggregator doctor" in shown


def test_without_a_terminal_it_is_the_help_and_a_fault(run: Run, cursor: Path) -> None:
    """F8: a program that calls us without a command is not asked anything."""
    assert run() == (2, "")


def test_init_asks_three_questions(at_terminal: AtTerminal, home: Path, cursor: Path) -> None:
    code, shown = at_terminal("init", typed="cursor\nada\nnone\n")
    assert code == 0
    assert [number for number in ("1. ", "2. ", "3. ", "4. ") if number in shown] == ["1. ", "2. ", "3. "]
    assert CANARY not in shown
    assert list(read_object(own(home))["mcpServers"]) == ["time", "hub"]  # type: ignore[call-overload]
    policies = (own(home).parent / "policies" / "main.yaml").read_text()
    assert "  ada:\n    roles:\n      - everything\n" in policies
    assert "# Policies: which agent may see and call what." in policies
    assert "agg_" in shown or "key of ada" in shown
    assert sorted(path.name for path in (own(home).parent / "policies").iterdir()) == ["main.yaml"]


def test_init_takes_all_and_asks_again_after_a_wrong_answer(at_terminal: AtTerminal, home: Path, cursor: Path) -> None:
    """F8: each question is asked until its answer can be used; what was answered before stays."""
    code, shown = at_terminal("init", typed="cursr\nall\nall\nno such agent!\nnone\nzedd\nall\ny\n")
    assert code == 0, shown
    assert [shown.count(question) for question in ("1. Import", "2. A policy", "3. Install")] == [2, 3, 2]
    assert "cursr" in shown
    assert "is for one agent" in shown
    assert list(read_object(own(home))["mcpServers"]) == ["time", "hub"]  # type: ignore[call-overload]
    assert "aggregator" in read_object(cursor)["mcpServers"]  # type: ignore[operator]


def test_init_without_a_terminal_does_what_options_say(run: Run, home: Path, cursor: Path) -> None:
    with pytest.raises(OperatorError, match=r"no terminal to ask at\. Add --yes"):
        run("init")
    assert not own(home).exists()
    before = cursor.read_text()
    code, _ = run("init", "--yes")
    assert code == 0
    assert list(read_object(own(home))["mcpServers"]) == ["time", "hub"]  # type: ignore[call-overload]
    assert cursor.read_text() == before


def test_init_with_nothing_to_take_over_makes_a_configuration(run: Run, home: Path) -> None:
    code, said = run("init", "--import", "none", "--agent", "none", "--install", "none")
    assert (code, read_object(own(home))) == (0, {"mcpServers": {}})
    assert "It has no servers yet" in said


def test_init_installs_into_a_host(run: Run, home: Path, cursor: Path) -> None:
    run("init", "--yes", "--install", "cursor")
    assert set(read_object(cursor)["mcpServers"]) == {"time", "hub", "aggregator"}  # type: ignore[call-overload]


def test_a_host_that_cannot_be_written_to_costs_itself_alone(run: Run, home: Path, cursor: Path) -> None:
    """A running Claude Desktop, and a broken file: the other hosts are installed into, and the exit code says so."""
    desktop = home / ".config" / "Claude"
    desktop.mkdir(parents=True)
    if ON_WINDOWS:
        (desktop / "lockfile").touch()
    else:
        (desktop / "SingletonLock").symlink_to(f"a-host-{os.getpid()}")
    broken = home / ".kiro" / "settings" / "mcp.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{")
    code, _ = run("init", "--yes", "--install", "claude-desktop,kiro,cursor")
    assert code == 2
    assert not (desktop / "claude_desktop_config.json").exists()
    assert broken.read_text() == "{"
    assert "aggregator" in json.loads(cursor.read_text())["mcpServers"]


@pytest.mark.parametrize("option", ["--import", "--install"])
def test_init_refuses_an_unknown_host_before_anything_is_written(run: Run, home: Path, option: str) -> None:
    with pytest.raises(OperatorError, match="cursr"):
        run("init", "--yes", option, "cursr")
    assert not own(home).exists()
