"""Machines with the files of hosts on them, made of the fixtures in a folder of a test."""

import shutil
from pathlib import Path
from typing import Final

from aggregator.hosts.every_host import HOSTS
from aggregator.hosts.model import Machine, System

FIXTURES: Final = Path(__file__).parent / "fixtures"
WITH_FILES: Final = tuple(host for host in HOSTS if host.files(Machine("linux", Path("/h"), {}, Path("/f"))))
SYSTEMS: Final[tuple[System, ...]] = ("linux", "macos", "windows")
# What every secret in a fixture begins with, or holds.
CANARY: Final = "canary"


def machine_with_fixtures(system: System, tmp_path: Path) -> Machine:
    """Return a machine of a system, with the fixtures as its home, and an empty working folder."""
    home, folder = tmp_path / "home", tmp_path / "folder"
    shutil.copytree(FIXTURES / system / "home", home)
    folder.mkdir()
    for file in home.rglob("*"):
        if file.is_file() and b"@FOLDER@" in (content := file.read_bytes()):
            file.write_bytes(content.replace(b"@FOLDER@", folder.as_posix().encode()))
    return Machine(system, home, {}, folder)


def empty_machine(tmp_path: Path, system: System = "linux") -> Machine:
    """Return a machine without any file."""
    home, folder = tmp_path / "home", tmp_path / "folder"
    home.mkdir()
    folder.mkdir()
    return Machine(system, home, {}, folder)


def put(path: Path, content: str | bytes) -> Path:
    """Write a file with the folders on the way."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
