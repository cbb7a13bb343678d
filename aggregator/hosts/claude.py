"""Claude Desktop and Claude Code.

Sources: https://modelcontextprotocol.io/docs/develop/connect-local-servers, https://code.claude.com/docs/en/mcp,
https://code.claude.com/docs/en/settings.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from aggregator.hosts.entries import HostSpelling, plain_entry, read_entry
from aggregator.hosts.folders import app_folder, variable_folder
from aggregator.hosts.model import HostFile, HostProgram, Machine, OwnLaunch
from aggregator.hosts.parse import UnreadableFile, parse_file

_DESKTOP: Final = HostSpelling("Claude Desktop", durations={"timeout": ("timeout", 0.001)}, fills_in=False)
_CODE: Final = HostSpelling("Claude Code", durations={"timeout": ("timeout", 0.001)})
# The folder that Windows gives to the packaged program in place of %APPDATA%.
_PACKAGED: Final = Path("Packages", "Claude_pzs8sxrjxfjjc", "LocalCache", "Roaming")


def _desktop_files(machine: Machine) -> tuple[HostFile, ...]:
    folders = [app_folder(machine)]
    if machine.system == "windows":
        local = variable_folder(machine, "LOCALAPPDATA") or machine.home / "AppData" / "Local"
        folders.append(local / _PACKAGED)
    return tuple(
        HostFile(folder / "Claude" / "claude_desktop_config.json", "user", "json", ("mcpServers",))
        for folder in folders
    )


def _desktop_entry(launch: OwnLaunch) -> dict[str, Any]:
    if launch.url is not None:
        raise ValueError("Claude Desktop starts programs alone; an address is added in its own settings.")
    return plain_entry(launch)


def _code_files(machine: Machine) -> tuple[HostFile, ...]:
    settings, own = user_file(machine), machine.folder / ".claude"
    return (
        HostFile(_managed_folder(machine) / "managed-mcp.json", "managed", "json", ("mcpServers",)),
        project_file(settings, str(machine.folder)),
        HostFile(
            machine.folder / ".mcp.json",
            "project",
            "json",
            ("mcpServers",),
            base=machine.folder,
            switches=(own / "settings.json", own / "settings.local.json", settings),
        ),
        HostFile(settings, "user", "json", ("mcpServers",)),
    )


def user_file(machine: Machine) -> Path:
    """Return the file in which Claude Code keeps the servers of the user, and of each project."""
    return (variable_folder(machine, "CLAUDE_CONFIG_DIR") or machine.home) / ".claude.json"


def project_file(settings: Path, project: str) -> HostFile:
    """Return the part of the user's file that is about one project."""
    return HostFile(settings, "local", "json", ("projects", project, "mcpServers"), base=Path(project))


def _managed_folder(machine: Machine) -> Path:
    if machine.system == "windows":
        return (variable_folder(machine, "ProgramFiles") or Path("C:/Program Files")) / "ClaudeCode"
    return Path("/Library/Application Support/ClaudeCode" if machine.system == "macos" else "/etc/claude-code")


def _code_off(root: Mapping[str, Any], file: HostFile) -> Collection[str]:
    """Name the servers that a project has switched off: in its part of the user's file, or in its settings."""
    if file.scope == "local":
        return _texts(_project(root, file.servers[1]), "disabledMcpServers")
    off: list[str] = []
    for path in file.switches:
        with suppress(UnreadableFile):
            said = parse_file(path, "json")
            off += _texts(said, "disabledMcpjsonServers")
            off += _texts(_project(said, str(file.base)), "disabledMcpjsonServers")
    return off


def _project(root: Mapping[str, Any], project: str) -> object:
    projects = root.get("projects")
    return projects.get(project) if isinstance(projects, Mapping) else None


def _texts(part: object, key: str) -> list[str]:
    found = part.get(key) if isinstance(part, Mapping) else None
    return [text for text in found if isinstance(text, str)] if isinstance(found, list) else []


def _code_entry(launch: OwnLaunch) -> dict[str, Any]:
    # Without it, the first turn begins without our tools, and a model gets their names alone.
    return {**plain_entry(launch, type="stdio" if launch.url is None else "http"), "alwaysLoad": True}


CLAUDE_DESKTOP: Final = HostProgram(
    id="claude-desktop",
    title="Claude Desktop",
    source="https://modelcontextprotocol.io/docs/develop/connect-local-servers",
    files=_desktop_files,
    read=lambda entry: read_entry(entry, _DESKTOP).fields,
    notes=lambda entry: read_entry(entry, _DESKTOP).notes,
    write=_desktop_entry,
    speaks=("stdio",),
)
CLAUDE_CODE: Final = HostProgram(
    id="claude-code",
    title="Claude Code",
    source="https://code.claude.com/docs/en/mcp",
    files=_code_files,
    read=lambda entry: read_entry(entry, _CODE).fields,
    notes=lambda entry: read_entry(entry, _CODE).notes,
    write=_code_entry,
    speaks=("stdio", "http", "sse"),
    off=_code_off,
)
