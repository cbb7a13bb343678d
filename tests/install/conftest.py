"""An empty home of its own for every test, and `aggregator install` run in this process."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from aggregator.cli.commands import app
from aggregator.domain.errors import OperatorError
from aggregator.hosts.model import Machine, System
from tests import ON_WINDOWS


class Install(Protocol):
    """A function that runs `aggregator install` and returns what it printed; errors are raised."""

    def __call__(self, *args: str) -> str: ...


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home and working folder, in which no file of this machine's hosts is found."""
    folder = tmp_path / "home"
    (folder / "project").mkdir(parents=True)
    own = {"APPDATA": str(folder / ".config"), "LOCALAPPDATA": str(folder / ".local" / "share")} if ON_WINDOWS else {}
    monkeypatch.setattr(os, "environ", {"PATH": os.defpath, "HOME": str(folder), **own})
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(folder / "project")
    return folder


@pytest.fixture
def config(home: Path) -> Path:
    """The user's own configuration, with one server."""
    path = home / ".config" / "aggregator" / "aggregator.json"
    path.parent.mkdir(parents=True)
    path.write_text('{\n  // mine\n  "mcpServers": {"time": {"command": "/bin/sh", "args": ["-c", "exit"]}}\n}\n')
    return path


@pytest.fixture
def install(capsys: pytest.CaptureFixture[str]) -> Install:
    """Run the command as a person types it, without a terminal."""

    def run(*args: str) -> str:
        capsys.readouterr()
        app(["install", *args], standalone_mode=False)
        shown = capsys.readouterr()
        return shown.out + shown.err

    return run


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run the command, and return the sentence with which it refuses."""

    def run(*args: str) -> str:
        with pytest.raises(OperatorError) as caught:
            app(["install", *args], standalone_mode=False)
        capsys.readouterr()
        return str(caught.value)

    return run


@pytest.fixture
def on_system(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[System], Machine]:
    """Let the command take this machine for one of another system."""

    def change(system: System) -> Machine:
        environ = {"PATH": os.defpath}
        if system == "windows":
            environ |= {"APPDATA": str(home / "AppData/Roaming"), "LOCALAPPDATA": str(home / "AppData/Local")}
        machine = Machine(system, home, environ, home / "project")
        monkeypatch.setattr("aggregator.cli.hosts.install.command.this_machine", lambda: machine)
        return machine

    return change


def tree(folder: Path) -> dict[str, bytes | str]:
    """Return all that is below a folder: the bytes of files, where links lead, and the folders."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        else:
            found[name] = "folder" if path.is_dir() else path.read_bytes()
    return found


def json_of(path: Path) -> Any:
    """The value in a JSON file."""
    return json.loads(path.read_text("utf-8"))
