"""Cursor, Devin, Windsurf, Zed and LM Studio, which share the form of Claude Desktop but for a key or two.

Sources: https://cursor.com/docs/context/mcp, https://docs.devin.ai/cli/extensibility/mcp/configuration,
https://docs.windsurf.com/windsurf/cascade/mcp,
https://zed.dev/docs/ai/mcp, https://lmstudio.ai/docs/app/mcp.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aggregator.hosts.entries import EntryReading, HostSpelling, plain_entry, read_entry
from aggregator.hosts.folders import app_folder, xdg_folder
from aggregator.hosts.model import HostFile, HostLimits, HostProgram, Machine, OwnLaunch, UnusableEntry

_CURSOR: Final = HostSpelling("Cursor")
_DEVIN: Final = HostSpelling("Devin")
_WINDSURF: Final = HostSpelling("Windsurf")
_LM_STUDIO: Final = HostSpelling("LM Studio", timeouts={"timeout": 0.001}, fills_in=False)
_ZED: Final = HostSpelling("Zed", fills_in=False, silent=frozenset({"remote", "source", "settings"}))


def _cursor_files(machine: Machine) -> tuple[HostFile, ...]:
    return (
        HostFile(machine.folder / ".cursor" / "mcp.json", "project", "json", ("mcpServers",), base=machine.folder),
        HostFile(machine.home / ".cursor" / "mcp.json", "user", "json", ("mcpServers",)),
    )


def _devin_files(machine: Machine) -> tuple[HostFile, ...]:
    own, here = _dotted_folder(machine) / "devin", machine.folder / ".devin"
    # Older versions use `config.json`.
    names = ("mcp_config.local.json", "config.local.json", "mcp_config.json", "config.json")
    return (
        *(HostFile(here / name, "project", "json", ("mcpServers",), base=machine.folder) for name in names),
        HostFile(own / "mcp_config.json", "user", "json", ("mcpServers",)),
        HostFile(own / "config.json", "user", "json", ("mcpServers",)),
    )


def _dotted_folder(machine: Machine) -> Path:
    """Return the folder of programs that use ~/.config on macOS too."""
    if machine.system == "windows":
        return app_folder(machine)
    return xdg_folder(machine) if machine.system == "linux" else machine.home / ".config"


def _windsurf_files(machine: Machine) -> tuple[HostFile, ...]:
    own = machine.home / ".codeium"
    paths = (own / "windsurf", own / "windsurf-next", own)  # the last is that of the plugins for other editors
    return tuple(HostFile(path / "mcp_config.json", "user", "json", ("mcpServers",)) for path in paths)


def _lm_studio_files(machine: Machine) -> tuple[HostFile, ...]:
    folders = (machine.home / ".lmstudio", machine.home / ".cache" / "lm-studio")
    return tuple(HostFile(folder / "mcp.json", "user", "json", ("mcpServers",)) for folder in folders)


def _windsurf_entry(launch: OwnLaunch) -> dict[str, Any]:
    made = plain_entry(launch)
    return {"serverUrl" if key == "url" else key: value for key, value in made.items()}


def _zed_files(machine: Machine) -> tuple[HostFile, ...]:
    own = _dotted_folder(machine) / ("Zed" if machine.system == "windows" else "zed")
    here = machine.folder
    return (
        HostFile(here / ".zed" / "settings.json", "project", "json", ("context_servers",), base=here),
        HostFile(own / "settings.json", "user", "json", ("context_servers",)),
    )


def _zed_reading(entry: Mapping[str, Any]) -> EntryReading:
    launched = entry.get("command")
    if isinstance(launched, Mapping):  # the form of versions before 2025-09
        entry = {**entry, "command": launched.get("path"), "args": launched.get("args"), "env": launched.get("env")}
    if entry.get("command") is None and entry.get("url") is None:
        raise UnusableEntry("it comes from an extension of Zed, which has the program that starts it")
    return read_entry(entry, _ZED)


def _zed_entry(launch: OwnLaunch) -> dict[str, Any]:
    return plain_entry(launch, source="custom") if launch.url is None else plain_entry(launch)


CURSOR: Final = HostProgram(
    id="cursor",
    title="Cursor",
    source="https://cursor.com/docs/context/mcp",
    files=_cursor_files,
    read=lambda entry: read_entry(entry, _CURSOR).fields,
    notes=lambda entry: read_entry(entry, _CURSOR).notes,
    write=plain_entry,
    speaks=("stdio", "http", "sse"),
    limits=HostLimits(
        "cursor-vscode",
        plain=True,
        longest=60,
        prefix="{}",
        tools=40,
        spellings="(?<![a-z])cursor(?![a-z])",
        declares=("roots", "elicitation"),
    ),
    program="cursor",
    header_variable="${env:NAME}",
    reload="Restart Cursor, or switch the entry off and on in its settings under MCP.",
    errors="`MCP Logs` in its Output panel",
)
DEVIN: Final = HostProgram(
    id="devin",
    title="Devin",
    source="https://docs.devin.ai/cli/extensibility/mcp/configuration",
    files=_devin_files,
    read=lambda entry: read_entry(entry, _DEVIN).fields,
    notes=lambda entry: read_entry(entry, _DEVIN).notes,
    write=lambda launch: plain_entry(launch, **({} if launch.url is None else {"transport": "http"})),
    speaks=("stdio", "http", "sse"),
    limits=HostLimits("Devin", prefix="mcp__{}__"),
    program="devin",
)
WINDSURF: Final = HostProgram(
    id="windsurf",
    title="Windsurf",
    source="https://docs.windsurf.com/windsurf/cascade/mcp",
    files=_windsurf_files,
    read=lambda entry: read_entry(entry, _WINDSURF).fields,
    notes=lambda entry: read_entry(entry, _WINDSURF).notes,
    write=_windsurf_entry,
    speaks=("stdio", "http", "sse"),
    limits=HostLimits("windsurf-client", longest=64, tools=100, declares=()),
    program="windsurf",
    header_variable="${env:NAME}",
    reload="Press Refresh in the MCP settings of Windsurf, or restart it.",
)
ZED: Final = HostProgram(
    id="zed",
    title="Zed",
    source="https://zed.dev/docs/ai/mcp",
    files=_zed_files,
    read=lambda entry: _zed_reading(entry).fields,
    notes=lambda entry: _zed_reading(entry).notes,
    write=_zed_entry,
    limits=HostLimits("Zed", declares=()),
    program="zed",
    shell_path=True,
    reload="Zed takes its settings over when they are saved.",
    errors="the list of MCP servers in its settings",
)
LM_STUDIO: Final = HostProgram(
    id="lm-studio",
    title="LM Studio",
    source="https://lmstudio.ai/docs/app/mcp",
    files=_lm_studio_files,
    read=lambda entry: read_entry(entry, _LM_STUDIO).fields,
    notes=lambda entry: read_entry(entry, _LM_STUDIO).notes,
    write=plain_entry,
    limits=HostLimits("lmstudio-mcp-bridge", declares=()),
    also=("lmstudio",),
    reload="Restart LM Studio, or switch the entry off and on in its Program tab.",
)
