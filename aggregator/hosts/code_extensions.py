"""Cline, Roo Code and older Kilo Code, extensions of VS Code and editors made from it; some on the command line too.

Sources: https://docs.cline.bot/mcp/configuring-mcp-servers, https://docs.cline.bot/cline-cli/configuration,
https://docs.roocode.com/features/mcp/using-mcp-in-roo, https://kilo.ai/docs/automate/mcp/using-in-cli. Their times are
seconds: `formatMcpTimeoutErrorMessage` in sdk/packages/shared/src/mcp.ts of github.com/cline/cline, and
src/services/mcp/McpHub.ts of github.com/RooCodeInc/Roo-Code and of github.com/Kilo-Org/kilocode-legacy.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from aggregator.hosts.entries import HostSpelling, plain_entry, read_entry
from aggregator.hosts.folders import code_folders, variable_folder
from aggregator.hosts.model import HostFile, HostLimits, HostProgram, Machine, OwnLaunch

_EDITORS: Final = ("Code", "Code - Insiders", "Cursor", "Windsurf", "VSCodium")
_SERVERS: Final = (".vscode-server", ".vscode-server-insiders", ".cursor-server", ".windsurf-server")
_CLINE: Final = HostSpelling("Cline", timeouts={"timeout": 1.0})
_ROO: Final = HostSpelling("Roo Code", timeouts={"timeout": 1.0})
_KILO: Final = HostSpelling("Kilo Code", timeouts={"timeout": 1.0})


def _storages(machine: Machine, extension: str) -> Iterator[Path]:
    for user in code_folders(machine, *_EDITORS):
        yield user / "globalStorage" / extension / "settings"
    if machine.system == "linux":
        for server in _SERVERS:
            yield machine.home / server / "data" / "User" / "globalStorage" / extension / "settings"


def _cline_files(machine: Machine) -> tuple[HostFile, ...]:
    own = variable_folder(machine, "CLINE_DIR") or machine.home / ".cline"
    data = variable_folder(machine, "CLINE_DATA_DIR") or own / "data"
    # The command line and newer extensions share the first; the others are those of older extensions.
    folders = (data / "settings", *_storages(machine, "saoudrizwan.claude-dev"))
    paths = [folder / "cline_mcp_settings.json" for folder in folders]
    named = variable_folder(machine, "CLINE_MCP_SETTINGS_PATH")
    return tuple(HostFile(path, "user", "json", ("mcpServers",)) for path in ([named, *paths] if named else paths))


def _roo_files(machine: Machine) -> tuple[HostFile, ...]:
    project = HostFile(machine.folder / ".roo" / "mcp.json", "project", "json", ("mcpServers",), base=machine.folder)
    storages = _storages(machine, "rooveterinaryinc.roo-cline")
    return project, *(HostFile(folder / "mcp_settings.json", "user", "json", ("mcpServers",)) for folder in storages)


def _kilo_files(machine: Machine) -> tuple[HostFile, ...]:
    project = HostFile(
        machine.folder / ".kilocode" / "mcp.json", "project", "json", ("mcpServers",), base=machine.folder
    )
    terminal = machine.home / ".kilocode" / "cli" / "global" / "settings"
    folders = (terminal, *_storages(machine, "kilocode.kilo-code"))
    return project, *(HostFile(folder / "mcp_settings.json", "user", "json", ("mcpServers",)) for folder in folders)


def _cline_entry(launch: OwnLaunch) -> dict[str, Any]:
    more: dict[str, Any] = {} if launch.url is None else {"type": "streamableHttp"}
    return {**plain_entry(launch, **more), "disabled": False}


def _roo_entry(launch: OwnLaunch) -> dict[str, Any]:
    more: dict[str, Any] = {} if launch.url is None else {"type": "streamable-http"}
    return {**plain_entry(launch, **more), "disabled": False}


CLINE: Final = HostProgram(
    id="cline",
    title="Cline",
    source="https://docs.cline.bot/mcp/configuring-mcp-servers",
    files=_cline_files,
    read=lambda entry: read_entry(entry, _CLINE).fields,
    notes=lambda entry: read_entry(entry, _CLINE).notes,
    write=_cline_entry,
    speaks=("stdio", "http", "sse"),
    limits=HostLimits("Cline", declares=()),
    shell_path=True,
    reload="Cline takes its file over when it is saved; else restart the editor.",
)
ROO_CODE: Final = HostProgram(
    id="roo-code",
    title="Roo Code",
    source="https://docs.roocode.com/features/mcp/using-mcp-in-roo",
    files=_roo_files,
    read=lambda entry: read_entry(entry, _ROO).fields,
    notes=lambda entry: read_entry(entry, _ROO).notes,
    write=_roo_entry,
    speaks=("stdio", "http", "sse"),
    limits=HostLimits("Roo Code", declares=()),
    also=("roo", "roocode"),
    shell_path=True,
    header_variable="${env:NAME}",
    reload="Roo Code takes its file over when it is saved; else restart the editor.",
)
KILO_CODE_LEGACY: Final = HostProgram(
    id="kilo-code-legacy",
    title="Kilo Code (Legacy)",
    source="https://kilo.ai/docs/automate/mcp/using-in-cli",
    files=_kilo_files,
    read=lambda entry: read_entry(entry, _KILO).fields,
    notes=lambda entry: read_entry(entry, _KILO).notes,
    write=_roo_entry,
    speaks=("stdio", "http", "sse"),
    # src/services/mcp/McpHub.ts of github.com/Kilo-Org/kilocode, as it was on Roo Code.
    limits=HostLimits("Kilo Code", declares=()),
    also=("kilo-legacy",),
    shell_path=True,
    reload="Kilo Code takes its file over when it is saved; else restart the editor.",
)
