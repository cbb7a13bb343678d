"""Codex. Source: https://developers.openai.com/codex/mcp."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aggregator.hosts.entries import EntryReading, HostSpelling, in_order, read_entry
from aggregator.hosts.folders import variable_folder
from aggregator.hosts.model import HostFile, HostLimits, HostProgram, Machine, OwnLaunch, UnusableEntry

_SPELLING: Final = HostSpelling(
    "Codex",
    renamed={"enabled_tools": "enabledTools", "disabled_tools": "disabledTools"},
    timeouts={"tool_timeout_sec": 1.0},
    connect_timeouts={"startup_timeout_sec": 1.0, "startup_timeout_ms": 0.001},
    fills_in=False,
    silent=frozenset({"required", "tools", "default_tools_approval_mode", "supports_parallel_tool_calls"}),
)
_OWN: Final = frozenset({"env_vars", "bearer_token_env_var", "bearer_token", "http_headers", "env_http_headers"})


def _files(machine: Machine) -> tuple[HostFile, ...]:
    own = variable_folder(machine, "CODEX_HOME") or machine.home / ".codex"
    here = HostFile(machine.folder / ".codex" / "config.toml", "project", "toml", ("mcp_servers",), base=machine.folder)
    found = (here, HostFile(own / "config.toml", "user", "toml", ("mcp_servers",)))
    if machine.system == "windows":
        return found
    return *found, HostFile(Path("/etc/codex/config.toml"), "managed", "toml", ("mcp_servers",))


def _reading(entry: Mapping[str, Any]) -> EntryReading:
    plain = {key: value for key, value in entry.items() if key not in _OWN}
    reading = read_entry(plain, _SPELLING)
    fields = dict(reading.fields)
    forwarded = _named(entry.get("env_vars"))
    if forwarded and "command" in fields:
        fields["env"] = {**{name: f"${{{name}}}" for name in forwarded}, **fields.get("env", {})}
    headers: dict[str, str] = {}
    if token := entry.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{_text(token)}}}"
    elif token := entry.get("bearer_token"):
        headers["Authorization"] = f"Bearer {_text(token)}"
    headers |= {name: _text(value) for name, value in _object(entry.get("http_headers")).items()}
    headers |= {name: f"${{{_text(value)}}}" for name, value in _object(entry.get("env_http_headers")).items()}
    if headers and "url" in fields:
        fields["headers"] = {**headers, **fields.get("headers", {})}
    return EntryReading(in_order(fields), reading.notes)


def _named(value: object) -> list[str]:
    """Return the names of variables in `env_vars`, which are texts or objects with a `name`."""
    items = value if isinstance(value, list) else []
    names = (item.get("name") if isinstance(item, Mapping) else item for item in items)
    return [name for name in names if isinstance(name, str) and name.isidentifier() and name.isascii()]


def _object(value: object) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise UnusableEntry("its headers are no table")
    return value or {}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise UnusableEntry("a header, or the name of its variable, is no text")
    return value


def _entry(launch: OwnLaunch) -> dict[str, Any]:
    if launch.url is not None:
        return {"url": launch.url, **({"http_headers": dict(launch.headers)} if launch.headers else {})}
    # For a server that is not required, it waits one second, and then begins the first turn without its tools.
    made: dict[str, Any] = {"command": launch.command, "args": list(launch.args), "required": True}
    return {**made, "env": dict(launch.env)} if launch.env else made


CODEX: Final = HostProgram(
    id="codex",
    title="Codex",
    source="https://developers.openai.com/codex/mcp",
    files=_files,
    read=lambda entry: _reading(entry).fields,
    notes=lambda entry: _reading(entry).notes,
    write=_entry,
    limits=HostLimits("codex-mcp-client", longest=64, prefix="mcp__{}__", declares=("elicitation",)),
    program="codex",
    shell_path=True,
    key_field="bearer_token_env_var",
    reload="Start a new session of Codex.",
    errors="a message at its start, if the entry is `required`",
    shows="`codex mcp list` shows the entry.",
)
