"""Gemini CLI and GitHub Copilot CLI.

Sources: https://geminicli.com/docs/tools/mcp-server,
https://docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers.
"""

from pathlib import Path
from typing import Any, Final

from aggregator.hosts.entries import HostSpelling, dollar_names, plain_entry, read_entry
from aggregator.hosts.folders import variable_folder
from aggregator.hosts.gemini_settings import gemini_entry, gemini_off
from aggregator.hosts.model import HostFile, HostLimits, HostProgram, Machine, OwnLaunch

_GEMINI: Final = HostSpelling("Gemini CLI", timeouts={"timeout": 0.001}, text=dollar_names)
_COPILOT: Final = HostSpelling("Copilot CLI", timeouts={"timeout": 0.001}, text=dollar_names)


def _gemini_files(machine: Machine) -> tuple[HostFile, ...]:
    own = variable_folder(machine, "GEMINI_CLI_HOME") or machine.home
    system = variable_folder(machine, "GEMINI_CLI_SYSTEM_SETTINGS_PATH") or _gemini_system(machine)
    return (
        HostFile(system, "managed", "json", ("mcpServers",)),
        HostFile(machine.folder / ".gemini" / "settings.json", "project", "json", ("mcpServers",), base=machine.folder),
        HostFile(own / ".gemini" / "settings.json", "user", "json", ("mcpServers",)),
    )


def _gemini_system(machine: Machine) -> Path:
    if machine.system == "windows":
        return (variable_folder(machine, "ProgramData") or Path("C:/ProgramData")) / "gemini-cli" / "settings.json"
    if machine.system == "macos":
        return Path("/Library/Application Support/GeminiCli/settings.json")
    return Path("/etc/gemini-cli/settings.json")


def _copilot_files(machine: Machine) -> tuple[HostFile, ...]:
    own = variable_folder(machine, "COPILOT_HOME") or machine.home / ".copilot"
    here = machine.folder
    return (
        HostFile(here / ".mcp.json", "project", "json", ("mcpServers",), base=here),
        HostFile(here / ".github" / "mcp.json", "project", "json", ("mcpServers",), base=here),
        HostFile(own / "mcp-config.json", "user", "json", ("mcpServers",)),
    )


def _copilot_entry(launch: OwnLaunch) -> dict[str, Any]:
    return {**plain_entry(launch, type="local" if launch.url is None else "http"), "tools": ["*"]}


GEMINI_CLI: Final = HostProgram(
    id="gemini-cli",
    title="Gemini CLI",
    source="https://geminicli.com/docs/tools/mcp-server",
    files=_gemini_files,
    read=lambda entry: read_entry(entry, _GEMINI).fields,
    notes=lambda entry: read_entry(entry, _GEMINI).notes,
    write=gemini_entry,
    speaks=("stdio", "http", "sse"),
    off=lambda root, file: gemini_off(root),
    limits=HostLimits("gemini-cli-mcp-client", longest=63, declares=()),
    also=("gemini",),
    program="gemini",
    shell_path=True,
    header_variable="${NAME}",
    reload="Start Gemini CLI again.",
    errors="`gemini mcp list`, `/mcp`",
    shows="`gemini mcp list` shows whether it connects, in a folder that Gemini CLI trusts.",
)
COPILOT_CLI: Final = HostProgram(
    id="copilot-cli",
    title="Copilot CLI",
    source="https://docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers",
    files=_copilot_files,
    read=lambda entry: read_entry(entry, _COPILOT).fields,
    notes=lambda entry: read_entry(entry, _COPILOT).notes,
    write=_copilot_entry,
    speaks=("stdio", "http", "sse"),
    limits=HostLimits("github-copilot-developer", plain=True, longest=64, spellings="copilot"),
    also=("copilot",),
    program="copilot",
    shell_path=True,
    reload="Start Copilot CLI again.",
    errors="`/mcp show NAME`",
    shows="`copilot mcp list` shows the entry.",
)
