"""Folders in which the programs of each system keep their settings."""

from collections.abc import Iterator
from pathlib import Path

from aggregator.hosts.model import Machine


def app_folder(machine: Machine) -> Path:
    """Return the folder of settings: ~/.config, ~/Library/Application Support or %APPDATA%."""
    if machine.system == "windows":
        return variable_folder(machine, "APPDATA") or machine.home / "AppData" / "Roaming"
    if machine.system == "macos":
        return machine.home / "Library" / "Application Support"
    return xdg_folder(machine)


def xdg_folder(machine: Machine) -> Path:
    """Return $XDG_CONFIG_HOME or ~/.config, which some programs use on macOS too."""
    return variable_folder(machine, "XDG_CONFIG_HOME") or machine.home / ".config"


def local_folder(machine: Machine) -> Path:
    """Return %LOCALAPPDATA% of Windows."""
    return variable_folder(machine, "LOCALAPPDATA") or machine.home / "AppData" / "Local"


def packages(machine: Machine, prefix: str) -> tuple[Path, ...]:
    """Return the folders of packaged programs (MSIX) of Windows whose names begin so, sorted."""
    try:
        found = [entry for entry in (local_folder(machine) / "Packages").iterdir() if entry.name.startswith(prefix)]
    except OSError:
        return ()
    return tuple(sorted(found))


def shared_folders(machine: Machine) -> frozenset[Path]:
    """Return the folders in which many programs have theirs, so that they say nothing about one of them."""
    local = local_folder(machine)
    own = (machine.home, app_folder(machine), xdg_folder(machine), local / "Packages")
    return frozenset({*own, *(parent for folder in own for parent in folder.parents)})


def variable_folder(machine: Machine, name: str) -> Path | None:
    """Return the folder that a variable names; None if it is not set, or not absolute as required."""
    written = machine.environ.get(name, "").strip()
    if written.startswith("~"):
        return machine.home / written[1:].lstrip("/\\")
    absolute = written.startswith("/") or written[1:2] == ":" or written.startswith("\\\\")
    return Path(written) if absolute else None


def code_folders(machine: Machine, *products: str) -> Iterator[Path]:
    """Yield the `User` folders of editors made from VS Code, such as `Code` and `Cursor`."""
    for product in products:
        yield app_folder(machine) / product / "User"


def children(folder: Path, *suffixes: str) -> tuple[Path, ...]:
    """Return the entries of a folder, sorted, of at most 200; only those with one of the suffixes, if any is given.

    A folder that is missing or may not be read has none.
    """
    try:
        found = sorted(entry for entry in folder.iterdir() if not suffixes or entry.suffix.lower() in suffixes)
    except OSError:
        return ()
    return tuple(found[:200])
