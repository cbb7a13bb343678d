"""Zed. Source: https://zed.dev/docs/ai/mcp."""

from collections.abc import Mapping
from typing import Any, Final

from aggregator.hosts.entries import EntryReading, Spelling, plain_entry, read_entry
from aggregator.hosts.folders import app_folder, xdg_folder
from aggregator.hosts.model import HostFile, HostProgram, Machine, OwnLaunch, UnusableEntry

_SPELLING: Final = Spelling("Zed", fills_in=False, silent=frozenset({"remote", "source", "settings"}))


def _files(machine: Machine) -> tuple[HostFile, ...]:
    if machine.system == "windows":
        own = app_folder(machine) / "Zed"
    else:
        own = xdg_folder(machine) / "zed" if machine.system == "linux" else machine.home / ".config" / "zed"
    here = machine.folder
    return (
        HostFile(here / ".zed" / "settings.json", "project", "json", ("context_servers",), base=here),
        HostFile(own / "settings.json", "user", "json", ("context_servers",)),
    )


def _reading(entry: Mapping[str, Any]) -> EntryReading:
    launched = entry.get("command")
    if isinstance(launched, Mapping):  # the form of versions before 2025-09
        entry = {**entry, "command": launched.get("path"), "args": launched.get("args"), "env": launched.get("env")}
    if entry.get("command") is None and entry.get("url") is None:
        raise UnusableEntry("it comes from an extension of Zed, which has the program that starts it")
    return read_entry(entry, _SPELLING)


def _entry(launch: OwnLaunch) -> dict[str, Any]:
    return plain_entry(launch, source="custom") if launch.url is None else plain_entry(launch)


ZED: Final = HostProgram(
    id="zed",
    title="Zed",
    source="https://zed.dev/docs/ai/mcp",
    files=_files,
    read=lambda entry: _reading(entry).fields,
    notes=lambda entry: _reading(entry).notes,
    write=_entry,
)
