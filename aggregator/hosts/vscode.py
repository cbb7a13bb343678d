"""VS Code and VS Code Insiders, with their profiles and workspaces.

Source: https://code.visualstudio.com/docs/copilot/reference/mcp-configuration.
"""

from typing import Any, Final

from aggregator.hosts.entries import HostSpelling, plain_entry, read_entry
from aggregator.hosts.folders import children, code_folders
from aggregator.hosts.model import HostFile, HostLimits, HostProgram, Machine, OwnLaunch

_SOURCE: Final = "https://code.visualstudio.com/docs/copilot/reference/mcp-configuration"
_SPELLING: Final = HostSpelling("VS Code", timeouts={})


def _files(machine: Machine, product: str, remote: str) -> tuple[HostFile, ...]:
    here = machine.folder / ".vscode"
    (user,) = code_folders(machine, product)
    found = [
        HostFile(here / "mcp.json", "project", "json", ("servers",), base=machine.folder),
        HostFile(here / "settings.json", "project", "json", ("mcp", "servers"), base=machine.folder),
        HostFile(user / "mcp.json", "user", "json", ("servers",)),
        HostFile(user / "settings.json", "user", "json", ("mcp", "servers")),
    ]
    for profile in children(user / "profiles"):
        found.append(HostFile(profile / "mcp.json", "profile", "json", ("servers",)))
        found.append(HostFile(profile / "settings.json", "profile", "json", ("mcp", "servers")))
    if machine.system == "linux":
        found.append(HostFile(machine.home / remote / "data" / "User" / "mcp.json", "user", "json", ("servers",)))
    return tuple(found)


def _entry(launch: OwnLaunch) -> dict[str, Any]:
    return plain_entry(launch, type="stdio" if launch.url is None else "http")


def _program(id: str, title: str, product: str, remote: str, program: str, also: tuple[str, ...]) -> HostProgram:
    """Return one of the two editors; `product` is the folder of its settings, `remote` that of its server on a host."""
    return HostProgram(
        id=id,
        title=title,
        source=_SOURCE,
        files=lambda machine: _files(machine, product, remote),
        read=lambda entry: read_entry(entry, _SPELLING).fields,
        notes=lambda entry: read_entry(entry, _SPELLING).notes,
        write=_entry,
        limits=HostLimits(f"Visual Studio {product}", tools=128, declares=("roots", "sampling", "elicitation")),
        also=also,
        speaks=("stdio", "http", "sse"),
        program=program,
        shell_path=True,
        all_variables=True,
        header_variable="${env:NAME}",
        reload="Run `MCP: List Servers` in VS Code and restart the entry there.",
        errors="`MCP: List Servers`, Show Output",
        shows="It asks whether you trust the entry.",
    )


VSCODE: Final = _program("vscode", "VS Code", "Code", ".vscode-server", "code", ("code", "vs-code"))
VSCODE_INSIDERS: Final = _program(
    "vscode-insiders",
    "VS Code Insiders",
    "Code - Insiders",
    ".vscode-server-insiders",
    "code-insiders",
    ("code-insiders",),
)
