"""Cursor, Windsurf and LM Studio, which share the form of Claude Desktop but for a key or two.

Sources: https://cursor.com/docs/context/mcp, https://docs.windsurf.com/windsurf/cascade/mcp,
https://lmstudio.ai/docs/app/mcp.
"""

from typing import Any, Final

from aggregator.hosts.entries import Spelling, plain_entry, read_entry
from aggregator.hosts.model import HostFile, HostProgram, Machine, OwnLaunch

_CURSOR: Final = Spelling("Cursor")
_WINDSURF: Final = Spelling("Windsurf")
_LM_STUDIO: Final = Spelling("LM Studio", durations={"timeout": ("timeout", 0.001)}, fills_in=False)


def _cursor_files(machine: Machine) -> tuple[HostFile, ...]:
    return (
        HostFile(machine.folder / ".cursor" / "mcp.json", "project", "json", ("mcpServers",), base=machine.folder),
        HostFile(machine.home / ".cursor" / "mcp.json", "user", "json", ("mcpServers",)),
    )


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


CURSOR: Final = HostProgram(
    id="cursor",
    title="Cursor",
    source="https://cursor.com/docs/context/mcp",
    files=_cursor_files,
    read=lambda entry: read_entry(entry, _CURSOR).fields,
    notes=lambda entry: read_entry(entry, _CURSOR).notes,
    write=plain_entry,
    speaks=("stdio", "http", "sse"),
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
)
LM_STUDIO: Final = HostProgram(
    id="lm-studio",
    title="LM Studio",
    source="https://lmstudio.ai/docs/app/mcp",
    files=_lm_studio_files,
    read=lambda entry: read_entry(entry, _LM_STUDIO).fields,
    notes=lambda entry: read_entry(entry, _LM_STUDIO).notes,
    write=plain_entry,
)
