"""The hosts as npm has them: how each is started without a terminal, and how it is told where its model is.

Sources: https://code.claude.com/docs/en/env-vars, https://developers.openai.com/codex/config-reference,
https://geminicli.com/docs/reference/configuration.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

# No request may leave this machine: nothing listens there.
_NOWHERE: Final = "http://127.0.0.1:9"
_NO_REQUESTS_OUTSIDE: Final = {"HTTPS_PROXY": _NOWHERE, "HTTP_PROXY": _NOWHERE, "NO_PROXY": "127.0.0.1,localhost"}
_PROMPT: Final = "Use the tools."


class NotInstalled(Exception):
    """The host is not there, so nothing can be said of it."""


@dataclass(frozen=True, slots=True)
class RealHost:
    """A host: its id on our command line, its package on npm, and what starts it.

    `program` is a pattern in `node_modules`. `arguments` come after it. `environ` gets the model's address. `prepare`
    writes into the home what the host needs to know of its model, in a file that the aggregator edits afterwards.
    `add_server` puts a server with a command into that file, as its user would have.
    """

    id: str
    package: str
    program: str
    arguments: tuple[str, ...]
    environ: Callable[[str], Mapping[str, str]]
    prepare: Callable[[Path, str], None]
    add_server: Callable[[Path, str, Mapping[str, Any]], None]

    def command(self, installed: Path) -> list[str]:
        """Return what starts the host.

        Raises:
            NotInstalled: npm has not installed it, or not for this machine.
        """
        found = sorted((installed / "node_modules").glob(self.program))
        if not found:
            raise NotInstalled(f"{self.package} is not in {installed}; `sh scripts/try-hosts` installs it")
        return [str(found[0]), *self.arguments]

    def version(self, installed: Path) -> str:
        """Return the version that npm installed."""
        manifest = installed / "node_modules" / self.package / "package.json"
        return str(json.loads(manifest.read_text(encoding="utf-8"))["version"])


def _nothing(home: Path, url: str) -> None:
    """Leave the home as it is: variables say everything."""


def _claude_server(home: Path, name: str, entry: Mapping[str, Any]) -> None:
    (home / ".claude.json").write_text(json.dumps({"mcpServers": {name: entry}}, indent=2), encoding="utf-8")


def _server_in_toml(home: Path, name: str, entry: Mapping[str, Any]) -> None:
    with (home / ".codex" / "config.toml").open("a", encoding="utf-8") as file:
        # A list or text of JSON is one of TOML.
        lines = [f"{key} = {json.dumps(value)}" for key, value in entry.items()]
        file.write("\n".join(("", f"[mcp_servers.{name}]", *lines, "")))


def _gemini_server(home: Path, name: str, entry: Mapping[str, Any]) -> None:
    file = home / ".gemini" / "settings.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**settings, "mcpServers": {name: entry}}, indent=2), encoding="utf-8")


def _model_in_toml(home: Path, url: str) -> None:
    file = home / ".codex" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(
        f"""# The model of the trials
model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
""",
        encoding="utf-8",
    )


def _gemini_key(home: Path, url: str) -> None:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
    }
    file = home / ".gemini" / "settings.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(settings, indent=2), encoding="utf-8")


HOSTS: Final = (
    RealHost(
        "claude-code",
        "@anthropic-ai/claude-code",
        "@anthropic-ai/claude-code-*/claude*",
        ("-p", _PROMPT, "--allowedTools", "mcp__aggregator__*"),
        lambda url: {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "scripted",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            # Wait for its servers, also on a busy machine.
            "MCP_CONNECTION_NONBLOCKING": "0",
            **_NO_REQUESTS_OUTSIDE,
        },
        _nothing,
        _claude_server,
    ),
    RealHost(
        "codex",
        "@openai/codex",
        ".bin/codex",
        # It refuses tools that are not said to read only, unless a person approves them.
        (
            "exec",
            "--skip-git-repo-check",
            "-c",
            'mcp_servers.aggregator.default_tools_approval_mode="approve"',
            _PROMPT,
        ),
        lambda url: {"SCRIPTED_KEY": "scripted", **_NO_REQUESTS_OUTSIDE},
        _model_in_toml,
        _server_in_toml,
    ),
    RealHost(
        "gemini-cli",
        "@google/gemini-cli",
        ".bin/gemini",
        # A model by name: else it asks a model which model to ask. Its proxy would be used for loopback, too.
        ("-m", "gemini-2.5-flash", "--skip-trust", "--allowed-mcp-server-names", "aggregator", "-p", _PROMPT),
        lambda url: {"GEMINI_API_KEY": "scripted", "GOOGLE_GEMINI_BASE_URL": url},
        _gemini_key,
        _gemini_server,
    ),
)
