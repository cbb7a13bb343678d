"""Antigravity, Kiro, Trae and Qoder: editors made from VS Code, with files of their own.

Sources: https://codelabs.developers.google.com/google-workspace-mcp-antigravity and
https://github.com/ChromeDevTools/chrome-devtools-mcp (its README names the file of Antigravity),
https://kiro.dev/docs/mcp/configuration, https://www.volcengine.com/docs/86677/2137601 (Trae),
https://github.com/pathintegral-institute/mcpm.sh/issues/92 (the file of Trae for a user),
https://docs.qoder.com/user-guide/chat/model-context-protocol (Qoder) and https://docs.rs/lean-ctx (its file,
which its own documentation does not name).
"""

from typing import Any, Final

from aggregator.hosts.entries import HostSpelling, plain_entry, read_entry
from aggregator.hosts.folders import app_folder, code_folders
from aggregator.hosts.model import HostFile, HostLimits, HostProgram, Machine, OwnLaunch

_ANTIGRAVITY: Final = HostSpelling("Antigravity", fills_in=False)
_KIRO: Final = HostSpelling("Kiro", timeouts={"timeout": 0.001})
_TRAE: Final = HostSpelling("Trae", fills_in=False, silent=frozenset({"fromGalleryId"}))
_QODER: Final = HostSpelling("Qoder", fills_in=False)


def _antigravity_files(machine: Machine) -> tuple[HostFile, ...]:
    own = machine.home / ".gemini"
    folders = (own / "config", own / "antigravity")  # the second is that of versions before 2.0
    return tuple(HostFile(folder / "mcp_config.json", "user", "json", ("mcpServers",)) for folder in folders)


def _antigravity_entry(launch: OwnLaunch) -> dict[str, Any]:
    made = plain_entry(launch)
    return {"serverUrl" if key == "url" else key: value for key, value in made.items()}


def _kiro_files(machine: Machine) -> tuple[HostFile, ...]:
    here = machine.folder
    return (
        HostFile(here / ".kiro" / "settings" / "mcp.json", "project", "json", ("mcpServers",), base=here),
        HostFile(machine.home / ".kiro" / "settings" / "mcp.json", "user", "json", ("mcpServers",)),
    )


def _trae_files(machine: Machine) -> tuple[HostFile, ...]:
    here = machine.folder
    return (
        HostFile(here / ".trae" / "mcp.json", "project", "json", ("mcpServers",), base=here),
        *(
            HostFile(user / "mcp.json", "user", "json", ("mcpServers",))
            for user in code_folders(machine, "Trae", "Trae CN")
        ),
    )


def _qoder_files(machine: Machine) -> tuple[HostFile, ...]:
    path = app_folder(machine) / "Qoder" / "SharedClientCache" / "mcp.json"
    return (HostFile(path, "user", "json", ("mcpServers",)),)


ANTIGRAVITY: Final = HostProgram(
    id="antigravity",
    title="Antigravity",
    source="https://codelabs.developers.google.com/google-workspace-mcp-antigravity",
    files=_antigravity_files,
    read=lambda entry: read_entry(entry, _ANTIGRAVITY).fields,
    notes=lambda entry: read_entry(entry, _ANTIGRAVITY).notes,
    write=_antigravity_entry,
    limits=HostLimits("antigravity-client", declares=("roots",)),
    also=("agy",),
    program="agy",
    reload="Press Refresh under Manage MCP Servers in Antigravity, or start it again.",
    shows="`agy mcp list` shows the entry.",
)
KIRO: Final = HostProgram(
    id="kiro",
    title="Kiro",
    source="https://kiro.dev/docs/mcp/configuration",
    files=_kiro_files,
    read=lambda entry: read_entry(entry, _KIRO).fields,
    notes=lambda entry: read_entry(entry, _KIRO).notes,
    write=lambda launch: {**plain_entry(launch), "disabled": False},
    speaks=("stdio", "http", "sse"),
    limits=HostLimits("Kiro CLI", spellings="(?<![a-z])kiro(?![a-z])"),
    also=("kiro-cli",),
    program="kiro",
    header_variable="${NAME}",
    reload="Kiro takes its file over when it is saved; else restart it.",
    errors="its panel of MCP servers",
    shows="Its panel of MCP servers shows whether it connects.",
)
TRAE: Final = HostProgram(
    id="trae",
    title="Trae",
    source="https://www.volcengine.com/docs/86677/2137601",
    files=_trae_files,
    read=lambda entry: read_entry(entry, _TRAE).fields,
    notes=lambda entry: read_entry(entry, _TRAE).notes,
    write=plain_entry,
    speaks=("stdio", "http", "sse"),
    limits=HostLimits(None),
    spaceless="command",
    reload="Restart Trae, or switch the entry off and on in its settings under MCP.",
)
QODER: Final = HostProgram(
    id="qoder",
    title="Qoder",
    source="https://docs.rs/lean-ctx/3.9.13/lean_ctx/core/editor_registry/paths/",
    files=_qoder_files,
    read=lambda entry: read_entry(entry, _QODER).fields,
    notes=lambda entry: read_entry(entry, _QODER).notes,
    write=plain_entry,
    speaks=("stdio", "http", "sse"),
    limits=HostLimits(None),
    reload="Restart Qoder.",
)
