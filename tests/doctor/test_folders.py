"""`aggregator doctor` in a folder that another person made: what its files say is told of, and not started."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.doctor.place import Place
from tests.doctor.seeds_of_config import ALLOW

OWN = str(Path(sys.executable).with_name("aggregator"))


def trap(place: Place) -> tuple[Path, dict[str, Any]]:
    """The file that tells of a start, and an entry that makes it."""
    sprung = place.home / "sprung"
    return sprung, {"command": "/bin/sh", "args": ["-c", f"touch '{sprung}'"]}


def project(place: Place, entry: dict[str, Any], host_file: str = ".mcp.json") -> None:
    key = "servers" if "vscode" in host_file else "mcpServers"
    place.write(place.here / host_file, json.dumps({key: {"aggregator": entry}}))


@pytest.mark.parametrize("args", [(), ("--fix",), ("--host", "claude-code")], ids=" ".join)
async def test_a_folder_starts_no_program_of_its_own(place: Place, args: tuple[str, ...]) -> None:
    """F1: Neither a program of our name, nor a shell, nor a runner, is started because a folder says so."""
    sprung, made = trap(place)
    program = place.write(place.here / "aggregator", f"#!/bin/sh\ntouch '{sprung}'\n")
    program.chmod(0o755)
    for entry in (
        {"command": str(program), "args": ["stdio"]},
        {"command": "sh", "args": [str(program), "aggregator", "stdio"]},
        {**made, "args": [*made["args"], "aggregator", "stdio"]},
        {"command": sys.executable, "args": ["-m", "aggregator", "stdio"], "cwd": str(place.here)},
        {"command": OWN, "args": ["stdio"], "env": {"PYTHONPATH": str(place.here)}},
    ):
        project(place, entry)
        place.configure()
        examined = await place.examine(*args)
        assert "host_entry_of_folder" in examined.codes, (entry, examined.report)
        assert not sprung.exists(), entry


@pytest.mark.parametrize(
    "words",
    [
        ("--config", "{evil}"),
        ("--config", "aggregator.json"),
        ("--config", "{own}", "--config", "{evil}"),
        ("--config={evil}",),
        ("-c", "{evil}"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("args", [(), ("--host", "claude-code")], ids=" ".join)
async def test_a_folder_brings_in_no_configuration(place: Place, words: tuple[str, ...], args: tuple[str, ...]) -> None:
    """F1: A configuration that nobody trusts is neither served nor tried because a host's file there names it."""
    sprung, made = trap(place)
    evil = place.write(place.here / "aggregator.json", json.dumps({"mcpServers": {"evil": made}}))
    named = [word.format(evil=evil, own=place.configure()) for word in words]
    project(place, {"command": OWN, "args": ["stdio", *named], "cwd": str(place.here)})
    await place.examine(*args)
    assert not sprung.exists()


async def test_what_install_writes_into_a_folder_is_started(place: Place) -> None:
    place.configure()
    place.policy(ALLOW)
    project(place, {"command": OWN, "args": ["stdio", "--config", str(place.config)]})
    examined = await place.examine("--host", "claude-code")
    assert "host_entry_of_folder" not in examined.codes, examined.report
    (seen,) = examined.report["seen"]
    assert (seen["host"], seen["tools"]) == ("claude-code", 3)


async def test_a_program_that_ends_at_once_is_told_of(place: Place) -> None:
    place.configure()
    place.install({"aggregator": {"command": "/bin/sh", "args": ["-c", "exec 0<&-; exit 1", "aggregator", "stdio"]}})
    examined = await place.examine("--host", "claude-desktop")
    assert "host_start_fails" in examined.codes, examined.report
