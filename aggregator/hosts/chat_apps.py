"""Programs to chat with: BoltAI, 5ire and Witsy with files of their own; others with settings to paste into.

Sources: https://docs.boltai.com/docs/plugins/mcp-servers, the source of 5ire (src/main/mcp.ts) and of Witsy
(src/main/mcp.ts, src/main/config.ts), https://manual.raycast.com/ai/model-context-protocol,
https://help.openai.com/en/articles/12584461-developer-mode-and-mcp-apps-in-chatgpt-beta,
https://www.perplexity.ai/help-center/en/articles/11502712-local-and-remote-mcps-for-perplexity,
https://docs.cherry-ai.com/en-us/advanced-basic/mcp/auto-install,
https://lobehub.com/mcp, and https://github.com/apify/mcp-client-capabilities for names in `clientInfo`.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from aggregator.hosts.entries import HostSpelling, plain_entry, program_entry, read_entry
from aggregator.hosts.folders import app_folder
from aggregator.hosts.model import Asked, HostFile, HostLimits, HostProgram, Machine, OwnLaunch

_BOLTAI: Final = HostSpelling("BoltAI", fills_in=False)
_FIVE_IRE: Final = HostSpelling("5ire", fills_in=False, silent=frozenset({"key", "proxy", "homepage", "capabilities"}))
_WITSY: Final = HostSpelling("Witsy", fills_in=False)
_PASTED: Final = HostSpelling("a host", fills_in=False)


def _boltai_files(machine: Machine) -> tuple[HostFile, ...]:
    return (HostFile(machine.home / ".boltai" / "mcp.json", "user", "json", ("mcpServers",)),)


def _five_ire_files(machine: Machine) -> tuple[HostFile, ...]:
    return (HostFile(app_folder(machine) / "5ire" / "mcp.json", "user", "json", ("mcpServers",)),)


def _five_ire_reading(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {**entry, "type": "auto"} if entry.get("type") == "remote" else dict(entry)


def _five_ire_entry(launch: OwnLaunch) -> dict[str, Any]:
    kind = "local" if launch.url is None else "remote"
    return {**plain_entry(launch, name="aggregator", type=kind), "isActive": True}


def _witsy_files(machine: Machine) -> tuple[HostFile, ...]:
    return (HostFile(app_folder(machine) / "Witsy" / "settings.json", "user", "json", ("mcpServers",)),)


def _witsy_off(root: Mapping[str, Any], file: HostFile) -> Collection[str]:
    part = root.get("mcp")
    extra = part.get("mcpServersExtra") if isinstance(part, Mapping) else None
    if not isinstance(extra, Mapping):
        return ()
    return [name for name, more in extra.items() if isinstance(more, Mapping) and more.get("state") == "disabled"]


def _pasted(
    id: str,
    title: str,
    source: str,
    paste: str,
    *,
    client: str | None = None,
    spellings: str | None = None,
    speaks: tuple[Any, ...] = ("stdio", "http"),
    also: tuple[str, ...] = (),
    paste_json: bool = False,
    declares: tuple[Asked, ...] | None = None,
) -> HostProgram:
    """Return a host that keeps its servers in a database of its own, so that people paste our entry."""
    return HostProgram(
        id=id,
        title=title,
        source=source,
        files=lambda machine: (),
        read=lambda entry: read_entry(entry, _PASTED).fields,
        notes=lambda entry: read_entry(entry, _PASTED).notes,
        write=plain_entry if "http" in speaks else lambda launch: program_entry(title, launch),
        limits=HostLimits(client, spellings=spellings, declares=declares),
        speaks=speaks,
        also=also,
        paste=paste,
        paste_json=paste_json,
    )


BOLTAI: Final = HostProgram(
    id="boltai",
    title="BoltAI",
    source="https://docs.boltai.com/docs/plugins/mcp-servers",
    files=_boltai_files,
    read=lambda entry: read_entry(entry, _BOLTAI).fields,
    notes=lambda entry: read_entry(entry, _BOLTAI).notes,
    write=lambda launch: program_entry("BoltAI", launch),
    speaks=("stdio",),
    limits=HostLimits(None, declares=()),
    reload="Restart BoltAI.",
)
FIVE_IRE: Final = HostProgram(
    id="5ire",
    title="5ire",
    source="https://github.com/nanbingxyz/5ire/blob/main/src/main/mcp.ts",
    files=_five_ire_files,
    read=lambda entry: read_entry(_five_ire_reading(entry), _FIVE_IRE).fields,
    notes=lambda entry: read_entry(_five_ire_reading(entry), _FIVE_IRE).notes,
    write=_five_ire_entry,
    speaks=("stdio", "http", "sse"),
    # Its `clientInfo` has the name of the entry, not its own.
    limits=HostLimits(None, prefix="{}--", declares=()),
    plain_json=True,
    reload="Restart 5ire.",
)
WITSY: Final = HostProgram(
    id="witsy",
    title="Witsy",
    source="https://github.com/nbonamy/witsy/blob/main/src/main/mcp.ts",
    files=_witsy_files,
    read=lambda entry: read_entry(entry, _WITSY).fields,
    notes=lambda entry: read_entry(entry, _WITSY).notes,
    write=lambda launch: program_entry("Witsy", launch),
    speaks=("stdio",),
    off=_witsy_off,
    limits=HostLimits("witsy-mcp-client", declares=()),
    plain_json=True,
    spaceless="arguments",
    reload="Witsy takes its settings over when the file changes; else restart it.",
)
RAYCAST: Final = _pasted(
    "raycast",
    "Raycast",
    "https://manual.raycast.com/ai/model-context-protocol",
    "Run `Install MCP Server` in Raycast, take Standard Input/Output, and give this command and its arguments:",
    client="com.raycast.macos",
    declares=("roots",),
)
CHATGPT: Final = _pasted(
    "chatgpt",
    "ChatGPT",
    "https://help.openai.com/en/articles/12584461-developer-mode-and-mcp-apps-in-chatgpt-beta",
    "ChatGPT starts no programs, and its servers connect: switch developer mode on in Settings, Apps & Connectors, "
    "Advanced, and create a connector with the public https address of `aggregator serve`:",
    client="ChatGPT",
    speaks=("http", "sse"),
    also=("chatgpt-desktop",),
)
PERPLEXITY: Final = _pasted(
    "perplexity",
    "Perplexity",
    "https://www.perplexity.ai/help-center/en/articles/11502712-local-and-remote-mcps-for-perplexity",
    "In Perplexity for macOS, open Settings, Connectors, install its helper (PerplexityXPC), press Add Connector, and "
    "paste this command into the tab Simple:",
    speaks=("stdio",),
)
CHERRY_STUDIO: Final = _pasted(
    "cherry-studio",
    "Cherry Studio",
    "https://docs.cherry-ai.com/en-us/advanced-basic/mcp/auto-install",
    "In Cherry Studio, open Settings, MCP Servers, Add, Import from JSON, and paste this:",
    client="Cherry Studio",
    declares=(),
    speaks=("stdio", "http", "sse"),
    also=("cherry", "cherrystudio"),
    paste_json=True,
)
LOBECHAT: Final = _pasted(
    "lobechat",
    "LobeChat",
    "https://lobehub.com/mcp",
    "In the desktop app of LobeHub, open Settings, Skill Settings, Custom Skills, Quick Import JSON Configuration, and "
    "paste this:",
    client="lobehub-mcp-client",
    declares=(),
    also=("lobehub", "lobe-chat"),
    paste_json=True,
)
