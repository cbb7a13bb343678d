"""Claude Code. Sources: https://code.claude.com/docs/en/mcp, https://code.claude.com/docs/en/settings."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from aggregator.hosts.entries import HostSpelling, plain_entry, read_entry
from aggregator.hosts.folders import variable_folder
from aggregator.hosts.model import HostFile, HostLimits, HostProgram, Machine, OwnLaunch
from aggregator.hosts.parse import UnreadableFile, is_there, parse_file

_CODE: Final = HostSpelling("Claude Code", timeouts={"timeout": 0.001})


def _code_files(machine: Machine) -> tuple[HostFile, ...]:
    settings, own = _user_file(machine), machine.folder / ".claude"
    return (
        HostFile(_managed_folder(machine) / "managed-mcp.json", "managed", "json", ("mcpServers",)),
        _project_file(settings, str(machine.folder)),
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


def _user_file(machine: Machine) -> Path:
    """Return the file in which Claude Code keeps the servers of the user, and of each project."""
    return (variable_folder(machine, "CLAUDE_CONFIG_DIR") or machine.home) / ".claude.json"


def _project_file(settings: Path, project: str) -> HostFile:
    """Return the part of the user's file that is about one project."""
    return HostFile(settings, "local", "json", ("projects", project, "mcpServers"), base=Path(project))


def _every_project(machine: Machine) -> Iterator[HostFile]:
    settings = _user_file(machine)
    # A problem of the file is reported with its part for the user.
    with suppress(UnreadableFile):
        projects = parse_file(settings, "json").get("projects") if is_there(settings) else None
        for project in projects if isinstance(projects, Mapping) else ():
            yield _project_file(settings, project)


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
    every_project=_every_project,
    limits=HostLimits("claude-code", longest=64, prefix="mcp__{}__", declares=("roots", "elicitation")),
    also=("claudecode",),
    program="claude",
    shell_path=True,
    all_variables=True,
    header_variable="${NAME}",
    reload="Start a new session of Claude Code.",
    errors="`claude mcp list`, `/mcp`",
    shows="`claude mcp list` shows whether it connects. With `alwaysLoad` in our entry it waits for us, and "
    "has our definitions from the first turn; `expose: search` keeps them few.",
)
