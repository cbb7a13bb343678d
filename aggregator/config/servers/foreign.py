"""Keys of other hosts in an entry: other names of our fields, and keys without a meaning here.

Sources: the `mcp.json` references of VS Code, Cursor, Claude Code, Windsurf, Cline, Roo Code, Gemini CLI, GitHub
Copilot CLI, Zed, Cherry Studio and LM Studio.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from aggregator.config.server_config import ServerConfig, ServerType

# Key of another host -> our field, and the server type that the key implies, if any.
RENAMED: dict[str, tuple[str, ServerType | None]] = {
    "serverUrl": ("url", None),  # Windsurf
    "httpUrl": ("url", "http"),  # Gemini CLI
    "baseUrl": ("url", None),  # Cherry Studio
    "transport": ("type", None),
    "transportType": ("type", None),  # Cline
}

# Switch -> whether `true` enables the server.
SWITCHES: dict[str, bool] = {"disabled": False, "isActive": True}  # Cline, Windsurf, Roo Code; Cherry Studio

# List of tool names -> the field of `tools` it belongs to.
TOOL_LISTS: dict[str, str] = {
    "disabledTools": "exclude",  # Windsurf, Roo Code, Cherry Studio
    "excludeTools": "exclude",  # Gemini CLI
    "enabledTools": "include",
    "includeTools": "include",  # Gemini CLI
}

ENV_FILE = "envFile"  # VS Code, Cursor

# Key with a meaning to its host alone -> that host.
IGNORED: dict[str, str] = {
    "id": "several hosts",
    "name": "several hosts",
    "icon": "several hosts",
    "metadata": "several hosts",
    "tags": "several hosts",
    "alwaysAllow": "Cline, Roo Code",
    "autoApprove": "Cline, Kiro",
    "extension": "Gemini CLI",
    "authProviderType": "Gemini CLI",
    "oauth": "Claude Code, Gemini CLI",
    "headersHelper": "Claude Code",
    "alwaysLoad": "Claude Code",
    "dev": "VS Code",
    "gallery": "VS Code",
    "version": "VS Code",
    "sandbox": "VS Code",
    "sandboxEnabled": "VS Code",
    "networkTimeout": "Cline",
    "watchPaths": "Roo Code",
    "source": "Zed",
    "settings": "Zed",
    "provider": "Cherry Studio",
    "providerUrl": "Cherry Studio",
    "logoUrl": "Cherry Studio",
    "registryUrl": "Cherry Studio",
    "isTrusted": "Cherry Studio",
    "longRunning": "Cherry Studio",
    "installSource": "Cherry Studio",
}

# The field by which an `auth` is Cursor's, and ignored.
CURSOR_CLIENT = "CLIENT_ID"

# Keys at the root of the file with a meaning to their host alone -> that host.
IGNORED_ROOT: dict[str, str] = {
    "inputs": "VS Code: questions to the person; `${input:id}` is answered by the environment variable ID instead",
    "sandbox": "VS Code",
    "globalShortcut": "Claude Desktop",
    "preferences": "Claude Desktop",
    "isUsingBuiltInNodeForMcp": "Claude Desktop",
    "isDxtAutoUpdatesEnabled": "Claude Desktop",
    "scale": "Claude Desktop",
    "locale": "Claude Desktop",
    "userThemeMode": "Claude Desktop",
}

HTTP_SPELLINGS = ("streamable-http", "streamableHttp", "streamable_http")
COMMENT_PREFIXES = ("_", "//")

WORKED_OUT = frozenset({"id", "key", "disabled_reason", "references", "entry"})
OWN_KEYS = tuple(name for name in ServerConfig.model_fields if name not in WORKED_OUT)
# Keys of an entry that are read; the others are comments, keys of other hosts, or mistakes.
MEANT = frozenset({*OWN_KEYS, *RENAMED, *SWITCHES, *TOOL_LISTS, ENV_FILE})
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True)
class Translated:
    """An entry under our names; `written` has the key of the file for each of our fields."""

    fields: dict[str, object]
    written: dict[str, str]
    unknown: tuple[str, ...]


def is_comment(key: str) -> bool:
    """Return whether a key holds a comment, which JSON has no syntax for."""
    return key.startswith(COMMENT_PREFIXES)


def translate(entry: Mapping[str, object]) -> Translated:
    """Return an entry of any host under our names; null means `not set`, our own keys go before foreign ones."""
    fields: dict[str, object] = {}
    written: dict[str, str] = {}
    unknown: list[str] = []
    implied: ServerType | None = None
    for key, value in entry.items():
        if value is None or key in IGNORED or key == ENV_FILE or is_comment(key) or _is_anothers(key, value):
            continue
        if key in OWN_KEYS:
            fields[key], written[key] = value, key
        elif key in RENAMED:
            field, meant = RENAMED[key]
            if field not in fields:
                fields[field], written[field], implied = value, key, meant or implied
        elif key not in SWITCHES and key not in TOOL_LISTS:
            unknown.append(key)
    if implied:
        fields.setdefault("type", implied)
    if "type" in fields:
        fields["type"] = _type(fields["type"])
    _switch(entry, fields, written)
    _tool_lists(entry, fields, written)
    return Translated(fields, written, tuple(unknown))


def _is_anothers(key: str, value: object) -> bool:
    """Return True for what another host has under a key of ours: Cursor's client, Gemini's consent to all calls."""
    if key == "trust":
        return isinstance(value, bool)
    return key == "auth" and isinstance(value, Mapping) and CURSOR_CLIENT in value


def _type(value: object) -> object:
    """Return the server type of any spelling: `streamable-http` and its variants are `http`, case does not matter."""
    if not isinstance(value, str):
        return value
    folded = value.strip().lower()
    return "http" if folded in {spelling.lower() for spelling in HTTP_SPELLINGS} else folded


def _switch(entry: Mapping[str, object], fields: dict[str, object], written: dict[str, str]) -> None:
    for key, means_enabled in SWITCHES.items():
        value = entry.get(key)
        if value is not None and "enabled" not in fields:
            truth = _TRUTH.get(value.lower()) if isinstance(value, str) else value
            fields["enabled"] = truth is means_enabled if isinstance(truth, bool) else None
            written["enabled"] = key


def _tool_lists(entry: Mapping[str, object], fields: dict[str, object], written: dict[str, str]) -> None:
    tools = fields.get("tools")
    if isinstance(tools, list):  # GitHub Copilot: "tools": ["*"]
        tools = fields["tools"] = {"include": tools}
    for key, part in TOOL_LISTS.items():
        names = entry.get(key)
        if names and isinstance(tools, dict | None) and part not in (tools or {}):
            tools = fields["tools"] = {**(tools or {}), part: names}
            written.setdefault("tools", key)
