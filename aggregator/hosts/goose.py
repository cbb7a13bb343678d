"""Goose. Source: https://block.github.io/goose/docs/guides/config-files, which counts `timeout` in seconds."""

from collections.abc import Mapping
from typing import Any, Final

from aggregator.hosts.entries import EntryReading, HostSpelling, dollar_names, read_entry
from aggregator.hosts.folders import app_folder, variable_folder, xdg_folder
from aggregator.hosts.model import HostFile, HostLimits, HostProgram, Machine, OwnLaunch, UnusableEntry

_SPELLING: Final = HostSpelling(
    "Goose",
    renamed={"cmd": "command", "uri": "url", "envs": "env", "available_tools": "enabledTools"},
    timeouts={"timeout": 1.0},
    text=dollar_names,
    silent=frozenset({"display_name", "bundled", "name"}),
)
_PROGRAMS: Final = ("stdio",)
_ADDRESSES: Final = ("streamable_http", "sse", "http")


def _files(machine: Machine) -> tuple[HostFile, ...]:
    root = variable_folder(machine, "GOOSE_PATH_ROOT")
    if root is not None:
        folder = root / "config"
    elif machine.system == "windows":
        folder = app_folder(machine) / "Block" / "goose" / "config"
    else:
        folder = xdg_folder(machine) / "goose"
    return (HostFile(folder / "config.yaml", "user", "yaml", ("extensions",)),)


def _reading(entry: Mapping[str, Any]) -> EntryReading:
    kind = entry.get("type")
    if kind not in (None, *_PROGRAMS, *_ADDRESSES):
        raise UnusableEntry("it is built into Goose")
    made = {key: value for key, value in entry.items() if key not in ("env_keys", "type")}
    if kind == "sse":
        made["type"] = "sse"
    elif kind in _ADDRESSES:
        made["type"] = "http"
    if not made.get("available_tools"):
        made.pop("available_tools", None)
    kept = entry.get("env_keys")
    names = [name for name in kept if isinstance(name, str) and name.isidentifier()] if isinstance(kept, list) else []
    envs = made.get("envs")
    values = dict(envs) if isinstance(envs, Mapping) else {}
    if kind in _ADDRESSES:
        made.pop("envs", None)  # variables that its headers and its address refer to
        made = _filled_in(made, values)
    elif names:
        made["envs"] = {**{name: f"${{{name}}}" for name in names}, **values}
    reading = read_entry(made, _SPELLING)
    lost = tuple(f"Goose keeps {name[:60]} in its own keyring: set it here as a variable." for name in names)
    return EntryReading(reading.fields, reading.notes + lost)


def _filled_in(made: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    def text(value: object) -> object:
        if isinstance(value, Mapping):
            return {key: text(item) for key, item in value.items()}
        if isinstance(value, str):
            for name, item in values.items():
                if isinstance(item, str):
                    value = value.replace(f"${{{name}}}", item)
        return value

    return {key: text(value) if key in ("uri", "headers") else value for key, value in made.items()}


def _entry(launch: OwnLaunch) -> dict[str, Any]:
    common: dict[str, Any] = {"enabled": True, "name": "aggregator", "timeout": 300}
    if launch.url is not None:
        return {**common, "type": "streamable_http", "uri": launch.url, "headers": dict(launch.headers)}
    return {
        **common,
        "type": "stdio",
        "cmd": launch.command,
        "args": list(launch.args),
        "envs": dict(launch.env),
    }


GOOSE: Final = HostProgram(
    id="goose",
    title="Goose",
    source="https://block.github.io/goose/docs/guides/config-files",
    files=_files,
    read=lambda entry: _reading(entry).fields,
    notes=lambda entry: _reading(entry).notes,
    write=_entry,
    limits=HostLimits("goose", declares=("roots", "sampling", "elicitation")),
    program="goose",
    shell_path=True,
    reload="Start a new session of Goose.",
    # Source: https://block.github.io/goose/docs/troubleshooting/known-issues (package runners).
    errors="a message that the extension failed to start",
)
