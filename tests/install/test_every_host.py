"""Every host on three systems: our entry in its own file, the rest byte for byte, and both taken back.

The files are those of tests/hosts/fixtures, with canaries for secrets in them.
"""

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.cli.hosts.install.host_files import choose_file, entries
from aggregator.config.files.find import platform_folder
from aggregator.domain.errors import OperatorError
from aggregator.hosts.discover import discover
from aggregator.hosts.every_host import HOSTS
from aggregator.hosts.machine import desktop_path
from aggregator.hosts.model import HostProgram, Machine, System
from aggregator.hosts.parse import parse_file
from tests.hosts.grounds import CANARY, SYSTEMS, WITH_FILES, empty_machine, machine_with_fixtures
from tests.install.conftest import Install, tree

# The hosts whose forms differ most have every order tried on every system, each of the others on one.
_ALL: Final = {
    *("claude-desktop", "claude-code", "cursor", "vscode", "codex", "zed", "continue", "goose", "opencode", "crush"),
    *("kilo-code", "5ire", "witsy"),
}
_PAIRS: Final = [(system, host) for host in WITH_FILES for system in SYSTEMS]
_SOME: Final = [
    (system, host)
    for at, host in enumerate(WITH_FILES)
    for number, system in enumerate(SYSTEMS)
    if host.id in _ALL or number == at % len(SYSTEMS)
]


def _each(pairs: list[tuple[System, HostProgram]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("system", "host"), pairs, ids=[f"{system}-{host.id}" for system, host in pairs])


every_host = _each(_PAIRS)
some_systems = _each(_SOME)


class Ground:
    """A machine for the command, with a configuration that no host knows of."""

    def __init__(self, machine: Machine, patch: pytest.MonkeyPatch) -> None:
        self.machine = machine
        self.folder = machine.home.parent
        self.config = self.folder / "aggregator.json"
        self.config.write_text('{"mcpServers": {"time": {"command": "only-here"}}}')
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "only-here").write_text("#!/bin/sh\n")
        (tools / "only-here").chmod(0o755)
        path = os.pathsep.join([str(tools), desktop_path("linux", "")])
        patch.setattr(os, "environ", {"PATH": path, "HOME": str(self.folder / "own")})
        patch.setenv("PATH", path)
        patch.setattr("aggregator.cli.hosts.install.command.this_machine", lambda: machine)
        (platform_folder(os.environ) / "aggregator").mkdir(parents=True)

    def entry(self, host: HostProgram, path: Path | None = None) -> Any:
        """Return our entry as the host would read it from its file."""
        file = choose_file(host, self.machine, None, path)
        return host.read(entries(parse_file(file.path, file.format), file)["aggregator"])


@pytest.fixture
def ground(system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    return Ground(machine_with_fixtures(system, tmp_path), monkeypatch)


@pytest.fixture
def empty(system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    return Ground(empty_machine(tmp_path, system), monkeypatch)


def is_insertion(before: bytes, after: bytes) -> bool:
    """Return whether a content is another with one piece put in."""
    same = next((at for at, (old, new) in enumerate(zip(before, after, strict=False)) if old != new), len(before))
    return len(after) > len(before) and after.endswith(before[same:])


@every_host
def test_into_the_file_that_a_person_has(ground: Ground, host: HostProgram, install: Install) -> None:
    """E7: Our entry is put in and read back, all else stays, no secret is shown, and the undo restores every byte."""
    before = tree(ground.folder)
    file = choose_file(host, ground.machine, None, None)
    content = file.path.read_bytes()
    shown = install(host.id, "--config", str(ground.config), "--agent", "shop", "--write")
    fields = ground.entry(host)
    assert fields["args"][-5:] == ["stdio", "--config", str(ground.config), "--agent", "shop"]
    assert os.path.isabs(fields["command"])
    assert is_insertion(content, file.path.read_bytes())
    assert "points here already" in install(host.id, "--config", str(ground.config), "--agent", "shop")
    shown += install(host.id, "--undo", "--write")
    assert CANARY not in shown
    assert tree(ground.folder) == before


@some_systems
def test_where_there_is_no_file(empty: Ground, host: HostProgram, install: Install) -> None:
    """E7: The file is made where the host looks for it, and removed with the folders that were made."""
    before = tree(empty.folder)
    install(host.id, "--config", str(empty.config), "--write")
    assert empty.entry(host)["args"][-2:] == ["--config", str(empty.config)]
    assert not [found.problem for found in discover(empty.machine, [host]) if found.problem]
    install(host.id, "--undo", "--write")
    assert tree(empty.folder) == before


@some_systems
def test_over_http(ground: Ground, host: HostProgram, install: Install) -> None:
    """F1: The address of `aggregator serve`, in the form of this host."""
    before = tree(ground.folder)
    if "http" not in host.speaks:
        with pytest.raises(OperatorError, match=host.title):
            install(host.id, "--config", str(ground.config), "--http", "--write")
        assert tree(ground.folder) == before
        return
    install(host.id, "--config", str(ground.config), "--http", "--write")
    assert ground.entry(host)["url"] == "http://127.0.0.1:8642/mcp"
    install(host.id, "--undo", "--write")
    assert tree(ground.folder) == before


@some_systems
def test_take_over(ground: Ground, host: HostProgram, install: Install) -> None:
    """E7: Every server that the host has and that we can start moves, with its secrets, and moves back."""
    before = tree(ground.folder)
    file = choose_file(host, ground.machine, None, None)
    (found,) = [found for found in discover(ground.machine, [host]) if found.file == file]
    usable = {server.name for server in found.servers if server.fields is not None}
    shown = install(host.id, "--config", str(ground.config), "--take-over", "--write")
    left = entries(parse_file(file.path, file.format), file)
    assert set(left) == {server.name for server in found.servers} - usable - {"unnamed"} | {"aggregator"}
    ours = json.loads(ground.config.read_text())["mcpServers"]
    assert len(ours) == len(usable) + 1
    assert CANARY in ground.config.read_text()
    shown += install(host.id, "--undo", "--write")
    assert CANARY not in shown
    assert tree(ground.folder) == before


@some_systems
def test_only_the_entry(ground: Ground, host: HostProgram, install: Install) -> None:
    """E7: Taking our entry out alone leaves the file with the values it had."""
    file = choose_file(host, ground.machine, None, None)
    values, ours = parse_file(file.path, file.format), ground.config.read_text()
    for options in ((), ("--take-over",)):
        install(host.id, "--config", str(ground.config), "--write", *options)
        shown = install(host.id, "--undo", "--only-entry", "--write")
        assert CANARY not in shown
        assert _sorted(parse_file(file.path, file.format), file.servers) == _sorted(values, file.servers)
        assert json.loads(ground.config.read_text()) == json.loads(ours)


def _sorted(root: Any, servers: tuple[str, ...]) -> Any:
    """The values, with the servers of a list by name: what was taken out comes back at the end."""
    part = root
    for step in servers:
        part = part[step]
    if not isinstance(part, list):
        return root
    return {**root, servers[0]: sorted(part, key=lambda item: str(item.get("name")))}


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_path_of_this_shell(ground: Ground, install: Install, system: System) -> None:
    """E7: A host of the desktop starts our servers without the folders that a shell adds to PATH."""
    install("claude-desktop", "--config", str(ground.config), "--write")
    entry = ground.entry(next(host for host in HOSTS if host.id == "claude-desktop"))
    assert ("PATH" in entry.get("env", {})) == (system != "windows")
