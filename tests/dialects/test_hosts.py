"""The dialect that each host gets by what it says of itself; docs/hosts-and-servers.md names them."""

from pathlib import Path
from typing import Final

import pytest

from aggregator.dialects.names import Schemas, dialect_of

HOSTS: Final[dict[str, Schemas]] = {
    "claude-ai": "anthropic", "claude-code": "anthropic", "Anthropic/ClaudeAI": "anthropic", "Anthropic": "anthropic",
    "openai-mcp": "openai", "ChatGPT": "openai", "codex-mcp-client": "openai", "gemini-cli-mcp-client": "gemini",
    "Visual Studio Code": "portable", "Visual Studio Code - Insiders": "portable", "cursor-vscode": "portable",
    "github-copilot-developer": "portable", "windsurf-client": "portable", "Cline": "portable", "Roo Code": "portable",
    "Zed": "portable", "goose": "portable", "continue-client": "portable", "lmstudio-mcp-bridge": "portable",
    "mcp": "original", "mcporter": "original", "journey": "original", "": "original", "codexample": "original",
    "precursors": "original", "gemini": "original", "mongoose": "original", "x" * 200 + "claude-ai": "original",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTS)
def test_a_name_tells_the_dialect(name: str) -> None:
    assert dialect_of({"name": name}) == HOSTS[name]


@pytest.mark.parametrize("name", [None, 5, ["claude-ai"]])
def test_the_user_agent_tells_it_of_hosts_without_a_known_name(name: object) -> None:
    assert dialect_of({"name": name}) == "original"
    assert dialect_of({"name": name}, "openai-mcp/1.0.0") == "openai"
    assert dialect_of({}, "Claude-User/1.0") == "anthropic"
    assert dialect_of({"name": "gemini-cli-mcp-client"}, "openai-mcp/1.0.0") == "gemini"
    assert dialect_of({}, "python-httpx/1") == "original"


def test_the_page_names_them() -> None:
    page = (Path(__file__).parents[2] / "docs" / "hosts-and-servers.md").read_text(encoding="utf-8")
    table = page.partition("\n## Schemas for model APIs\n")[2].partition("\n## ")[0]
    for dialect in HOSTS.values():
        if dialect != "original":
            assert f"`{dialect}`" in table
    for name in ("claude-ai", "claude-code", "Anthropic", "openai-mcp", "ChatGPT", "codex-mcp-client",
                 "gemini-cli-mcp-client", "Visual Studio Code", "copilot", "cursor", "windsurf", "Cline", "Roo Code",
                 "Zed", "goose", "continue-client", "lmstudio"):  # fmt: skip
        assert name in table
