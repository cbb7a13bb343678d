"""Claude Desktop, which is installed in two ways on Windows.

Sources: https://modelcontextprotocol.io/docs/develop/connect-local-servers,
https://github.com/anthropics/claude-code/issues/26073 and /38830 (the package, whose file is elsewhere),
https://github.com/robotmcp/ros-mcp-server/issues/291 and https://github.com/anthropics/claude-code/issues/90101 (it
writes its file while it runs).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aggregator.hosts.entries import HostSpelling, program_entry, read_entry
from aggregator.hosts.folders import app_folder, local_folder, packages
from aggregator.hosts.model import HostFile, HostLimits, HostProgram, HostState, Machine
from aggregator.hosts.parse import is_there
from aggregator.hosts.running import single_instance

_SPELLING: Final = HostSpelling("Claude Desktop", timeouts={"timeout": 0.001}, fills_in=False)
_NAME: Final = "claude_desktop_config.json"
# A package is called by its name and a digest of its publisher, which is the same in the Microsoft Store and outside.
_PACKAGE: Final = "Claude_"
_USUAL_PACKAGE: Final = "Claude_pzs8sxrjxfjjc"
# What Windows gives to a packaged program in place of %APPDATA%.
_ROAMING: Final = Path("LocalCache", "Roaming")


def _files(machine: Machine) -> tuple[HostFile, ...]:
    common = app_folder(machine)
    folders = [common]
    if machine.system == "windows":
        found = packages(machine, _PACKAGE)
        usual = local_folder(machine) / "Packages" / _USUAL_PACKAGE
        folders = [*(package / _ROAMING for package in found), common, *([] if found else [usual / _ROAMING])]
    return tuple(HostFile(folder / "Claude" / _NAME, "user", "json", ("mcpServers",)) for folder in folders)


def _programs(machine: Machine) -> Iterator[Path]:
    if machine.system == "windows":
        yield from packages(machine, _PACKAGE)
        yield local_folder(machine) / "AnthropicClaude"
    elif machine.system == "macos":
        yield Path("/Applications/Claude.app")
        yield machine.home / "Applications" / "Claude.app"


def _state(machine: Machine, path: Path) -> HostState:
    folders = [path.parent]
    if machine.system == "windows" and path.parent == app_folder(machine) / "Claude":
        # A package reads this file too, while it has none of its own, and keeps its mark in its own folder.
        folders += [package / _ROAMING / "Claude" for package in packages(machine, _PACKAGE)]
    marks = (single_instance(machine.system, folder) for folder in folders)
    return HostState(next((mark for mark in marks if mark is not None), None), tuple(_remarks(machine, path)))


def _remarks(machine: Machine, path: Path) -> Iterator[str]:
    found = packages(machine, _PACKAGE) if machine.system == "windows" else ()
    common = app_folder(machine) / "Claude"
    programs = [place for place in _programs(machine) if is_there(place)]
    if not is_there(path.parent):
        if programs:
            yield "Claude Desktop has not been started here yet: it reads this file at its first start."
        else:
            yield "Claude Desktop was not found on this machine: it reads this file once it is installed and started."
    if not found:
        return
    if path.parent != common:
        yield (
            "Claude Desktop is installed here as a package (from the Microsoft Store or by the newer installer), which "
            f"has its file in this folder; it does not read {common / _NAME} beside it."
        )
    else:
        yield (
            "Claude Desktop is installed here as a package (from the Microsoft Store or by the newer installer), which "
            "has no file of its own yet and reads this one; if it makes one later, install again."
        )
    if any(place.name == "AnthropicClaude" for place in programs) and path.parent != common:
        yield f"The older kind of Claude Desktop is here too, and reads {common / _NAME}: use --file for that."


CLAUDE_DESKTOP: Final = HostProgram(
    id="claude-desktop",
    title="Claude Desktop",
    source="https://modelcontextprotocol.io/docs/develop/connect-local-servers",
    files=_files,
    read=lambda entry: read_entry(entry, _SPELLING).fields,
    notes=lambda entry: read_entry(entry, _SPELLING).notes,
    write=lambda launch: program_entry("Claude Desktop", launch),
    speaks=("stdio",),
    limits=HostLimits("claude-ai", plain=True, longest=64, spellings="claude[^a-z]*ai", declares=("roots",)),
    also=("claude",),
    programs=lambda machine: tuple(_programs(machine)),
    state=_state,
    plain_json=True,
    reload="Quit Claude Desktop, its icon in the menu bar or tray included, and start it again.",
    errors="a message at its start; `mcp.log` and `mcp-server-NAME.log` in `~/Library/Logs/Claude` or "
    "`%APPDATA%\\Claude\\logs`",
)
