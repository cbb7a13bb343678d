"""Qwen Code, Droid, Junie, Amazon Q, Crush, Qoder CLI, Warp and Amp: agents of a terminal or an editor.

Sources: https://qwenlm.github.io/qwen-code-docs/en/users/features/mcp/,
https://github.com/Factory-AI/factory/blob/main/docs/cli/configuration/mcp.mdx,
https://junie.jetbrains.com/docs/junie-cli-mcp-configuration.html,
https://docs.aws.amazon.com/amazonq/latest/qdeveloper-ug/qdev-mcp.html and the source of amazon-q-developer-cli (names),
https://github.com/charmbracelet/crush/blob/main/docs/config/README.md, https://docs.qoder.com/cli/mcp-servers,
https://github.com/warpdotdev/warp (its skill agent-add-mcp), https://ampcode.com/docs/customize/mcp (Amp; the prefix of
its names is in the documentation of its SDK).
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from aggregator.hosts.entries import EntryReading, HostSpelling, dollar_names, plain_entry, read_entry
from aggregator.hosts.folders import children, local_folder, variable_folder
from aggregator.hosts.gemini_settings import gemini_entry, gemini_off
from aggregator.hosts.model import HostFile, HostLimits, HostProgram, Machine, OwnLaunch

_QWEN: Final = HostSpelling("Qwen Code", timeouts={"timeout": 0.001}, text=dollar_names)
_DROID: Final = HostSpelling("Droid", timeouts={"timeoutMs": 0.001})
_JUNIE: Final = HostSpelling("Junie", fills_in=False)
_AMAZON_Q: Final = HostSpelling("Amazon Q", timeouts={"timeout": 0.001})
# `mcpTimeout` in its internal/agent/tools/mcp/init.go bounds the start of a server and its pings, no calls.
_CRUSH: Final = HostSpelling(
    "Crush",
    renamed={"disabled_tools": "disabledTools"},
    timeouts={},
    connect_timeouts={"timeout": 1.0},
    text=dollar_names,
)
_QODER_CLI: Final = HostSpelling("Qoder CLI")
_AMP: Final = HostSpelling("Amp")
_WARP: Final = HostSpelling("Warp", renamed={"working_directory": "cwd"})
_COMMAND: Final = re.compile(r"\$\(")


def _qwen_files(machine: Machine) -> tuple[HostFile, ...]:
    own, here = machine.home / ".qwen", machine.folder / ".qwen"
    return (
        HostFile(here / "settings.local.json", "local", "json", ("mcpServers",), base=machine.folder),
        HostFile(here / "settings.json", "project", "json", ("mcpServers",), base=machine.folder),
        HostFile(own / "settings.json", "user", "json", ("mcpServers",)),
    )


def _droid_files(machine: Machine) -> tuple[HostFile, ...]:
    here = machine.folder
    return (
        HostFile(here / ".factory" / "mcp.json", "project", "json", ("mcpServers",), base=here),
        HostFile(machine.home / ".factory" / "mcp.json", "user", "json", ("mcpServers",)),
    )


def _junie_files(machine: Machine) -> tuple[HostFile, ...]:
    here = machine.folder
    return (
        HostFile(here / ".junie" / "mcp" / "mcp.json", "project", "json", ("mcpServers",), base=here),
        HostFile(machine.home / ".junie" / "mcp" / "mcp.json", "user", "json", ("mcpServers",)),
    )


def _amazon_q_files(machine: Machine) -> tuple[HostFile, ...]:
    own, here = machine.home / ".aws" / "amazonq", machine.folder / ".amazonq"
    # Each agent has a file of its own; the first file counts for those that take it in (`useLegacyMcpJson`).
    agents = children(own / "cli-agents", ".json")
    return (
        HostFile(here / "mcp.json", "project", "json", ("mcpServers",), base=machine.folder),
        HostFile(here / "default.json", "project", "json", ("mcpServers",), base=machine.folder),
        HostFile(own / "mcp.json", "user", "json", ("mcpServers",)),
        HostFile(own / "agents" / "default.json", "user", "json", ("mcpServers",)),
        *(HostFile(path, "profile", "json", ("mcpServers",)) for path in agents),
    )


def _crush_files(machine: Machine) -> tuple[HostFile, ...]:
    here = machine.folder
    own = (variable_folder(machine, "XDG_CONFIG_HOME") or machine.home / ".config") / "crush"
    user = [own, *([local_folder(machine) / "crush"] if machine.system == "windows" else [])]
    named = variable_folder(machine, "CRUSH_GLOBAL_CONFIG")
    return (
        HostFile(here / ".crush.json", "project", "json", ("mcp",), base=here),
        HostFile(here / "crush.json", "project", "json", ("mcp",), base=here),
        *(HostFile(folder / "crush.json", "user", "json", ("mcp",)) for folder in ([named] if named else user)),
    )


def _crush_reading(entry: Mapping[str, Any]) -> EntryReading:
    reading = read_entry(entry, _CRUSH)
    if _COMMAND.search(str(reading.fields)):
        note = "Crush runs `$(...)` in a shell; here it is plain text: write a reference to the value."
        return EntryReading(reading.fields, (*reading.notes, note))
    return reading


def _crush_entry(launch: OwnLaunch) -> dict[str, Any]:
    return plain_entry(launch, type="stdio" if launch.url is None else "http")


def _qoder_cli_files(machine: Machine) -> tuple[HostFile, ...]:
    own = variable_folder(machine, "QODER_CONFIG_DIR") or machine.home / ".qoder"
    here = machine.folder
    return (
        HostFile(here / ".qoder" / "settings.local.json", "local", "json", ("mcpServers",), base=here),
        HostFile(here / ".mcp.json", "project", "json", ("mcpServers",), base=here),
        HostFile(own / "settings.json", "user", "json", ("mcpServers",)),
    )


def _amp_files(machine: Machine) -> tuple[HostFile, ...]:
    here = machine.folder
    own = machine.home / ".config" / "amp"
    return (
        HostFile(here / ".amp" / "settings.json", "project", "json", ("amp.mcpServers",), base=here),
        HostFile(own / "settings.json", "user", "json", ("amp.mcpServers",)),
    )


def _warp_files(machine: Machine) -> tuple[HostFile, ...]:
    here = machine.folder
    return (
        HostFile(here / ".warp" / ".mcp.json", "project", "json", ("mcpServers",), base=here),
        HostFile(machine.home / ".warp" / ".mcp.json", "user", "json", ("mcpServers",)),
    )


QWEN_CODE: Final = HostProgram(
    id="qwen-code",
    title="Qwen Code",
    source="https://qwenlm.github.io/qwen-code-docs/en/users/features/mcp/",
    files=_qwen_files,
    read=lambda entry: read_entry(entry, _QWEN).fields,
    notes=lambda entry: read_entry(entry, _QWEN).notes,
    write=gemini_entry,
    speaks=("stdio", "http", "sse"),
    off=lambda root, file: gemini_off(root),
    limits=HostLimits("qwen-code-mcp-client", prefix="mcp__{}__", spellings="qwen[^a-z]*(code|cli)"),
    also=("qwen",),
    program="qwen",
    shell_path=True,
    header_variable="${NAME}",
    reload="Start Qwen Code again.",
    errors="`/mcp`",
    shows="`qwen mcp list` shows the entry, `/mcp` whether it connects.",
)
DROID: Final = HostProgram(
    id="droid",
    title="Droid",
    source="https://github.com/Factory-AI/factory/blob/main/docs/cli/configuration/mcp.mdx",
    files=_droid_files,
    read=lambda entry: read_entry(entry, _DROID).fields,
    notes=lambda entry: read_entry(entry, _DROID).notes,
    write=lambda launch: {**plain_entry(launch, type="stdio" if launch.url is None else "http"), "disabled": False},
    speaks=("stdio", "http", "sse"),
    limits=HostLimits("factory-cli", declares=()),
    also=("factory",),
    program="droid",
    shell_path=True,
    header_variable="${NAME}",
    reload="Start Droid again.",
    errors="`/mcp`",
    shows="`/mcp` shows whether it connects, and its tools.",
)
JUNIE: Final = HostProgram(
    id="junie",
    title="Junie",
    source="https://junie.jetbrains.com/docs/junie-cli-mcp-configuration.html",
    files=_junie_files,
    read=lambda entry: read_entry(entry, _JUNIE).fields,
    notes=lambda entry: read_entry(entry, _JUNIE).notes,
    write=plain_entry,
    limits=HostLimits(None, declares=()),
    program="junie",
    reload="Start Junie, or the IDE with it, again.",
)
AMAZON_Q: Final = HostProgram(
    id="amazon-q",
    title="Amazon Q",
    source="https://docs.aws.amazon.com/amazonq/latest/qdeveloper-ug/qdev-mcp.html",
    files=_amazon_q_files,
    read=lambda entry: read_entry(entry, _AMAZON_Q).fields,
    notes=lambda entry: read_entry(entry, _AMAZON_Q).notes,
    write=plain_entry,
    limits=HostLimits("Q-DEV-CLI", plain=True, longest=64, prefix="{}___", spellings="q-dev-cli", declares=()),
    also=("amazonq",),
    reload="Start Amazon Q again.",
    errors="`/tools`, and a message at its start",
    shows="`/tools` shows which servers still load, and their tools; names out of its rules are named at the start.",
)
CRUSH: Final = HostProgram(
    id="crush",
    title="Crush",
    source="https://github.com/charmbracelet/crush/blob/main/docs/config/README.md",
    files=_crush_files,
    read=lambda entry: _crush_reading(entry).fields,
    notes=lambda entry: _crush_reading(entry).notes,
    write=_crush_entry,
    speaks=("stdio", "http", "sse"),
    limits=HostLimits("crush", declares=("roots",)),
    program="crush",
    shell_path=True,
    header_variable="$NAME",
    reload="Start Crush again.",
    errors="`.crush/logs/crush.log` in the project",
    shows="It writes to .crush/logs/crush.log of the project. Newer versions take `crushrc` too, which wins over JSON.",
)
QODER_CLI: Final = HostProgram(
    id="qoder-cli",
    title="Qoder CLI",
    source="https://docs.qoder.com/cli/mcp-servers",
    files=_qoder_cli_files,
    read=lambda entry: read_entry(entry, _QODER_CLI).fields,
    notes=lambda entry: read_entry(entry, _QODER_CLI).notes,
    write=lambda launch: plain_entry(launch, **({} if launch.url is None else {"type": "http"})),
    speaks=("stdio", "http", "sse"),
    limits=HostLimits(None, prefix="mcp__{}__"),
    also=("qodercli",),
    program="qodercli",
    shell_path=True,
    reload="Run `/mcp reload` in Qoder CLI, or start it again.",
    errors="`qodercli mcp list`",
    shows="`qodercli mcp list` shows the entry.",
)
WARP: Final = HostProgram(
    id="warp",
    title="Warp",
    source="https://docs.warp.dev/agents/capabilities/mcp",
    files=_warp_files,
    read=lambda entry: read_entry(entry, _WARP).fields,
    notes=lambda entry: read_entry(entry, _WARP).notes,
    write=plain_entry,
    speaks=("stdio", "http", "sse"),
    limits=HostLimits(None, declares=()),
    program="warp-terminal",
    reload="Start the entry in Settings, MCP servers, of Warp.",
    errors="Settings, MCP servers",
    shows="Settings, MCP servers, shows which servers run.",
)
AMP: Final = HostProgram(
    id="amp",
    title="Amp",
    source="https://ampcode.com/docs/customize/mcp",
    files=_amp_files,
    read=lambda entry: read_entry(entry, _AMP).fields,
    notes=lambda entry: read_entry(entry, _AMP).notes,
    write=plain_entry,
    speaks=("stdio", "http", "sse"),
    limits=HostLimits("amp-mcp-client", prefix="mcp__{}__", declares=("sampling",)),
    also=("ampcode", "amp-code"),
    program="amp",
    shell_path=True,
    header_variable="${NAME}",
    reload="Start Amp again.",
    errors="`amp mcp doctor`",
    shows="`amp mcp doctor` shows whether it connects, and its tools.",
)
