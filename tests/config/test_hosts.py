"""What other hosts write works as it is pasted."""

from pathlib import Path
from typing import Any

import pytest

from aggregator.config.server_config import ServerConfig

from . import host_configs
from .conftest import Load


def servers(load_file: Load, content: dict[str, Any]) -> dict[str, ServerConfig]:
    loaded = load_file(content, host_configs.ENVIRON)
    assert not loaded.problems
    return {server.id: server for server in loaded.config.servers}


@pytest.mark.parametrize("content", host_configs.EVERYONE.values(), ids=host_configs.EVERYONE)
def test_a_pasted_file_costs_no_word(load_file: Load, tmp_path: Path, content: dict[str, Any]) -> None:
    """Proves: E7."""
    (tmp_path / ".env").write_text("A=1\n")
    found = servers(load_file, content)
    assert found.keys() == content.get("mcpServers", content.get("servers", {})).keys()


def test_vs_code(load_file: Load, tmp_path: Path) -> None:
    """Proves: E7."""
    (tmp_path / ".env").write_text("# why\nexport TOKEN='t-1' # here\nPLAIN = a b # c\nLINES=\"a\\nb\"\n\nnonsense\n")
    found = servers(load_file, host_configs.VS_CODE)
    assert found["Perplexity"].env == {"PERPLEXITY_API_KEY": "key-2", "REGION": "eu"}
    assert found["fetch"].cwd == str(tmp_path)
    assert found["files"].args == (f"{tmp_path}/s.js",)
    assert found["files"].env == {"TOKEN": "t-1", "PLAIN": "a b", "LINES": "a\nb"}
    assert found["github"].type == "http"


def test_an_env_file_that_is_missing_switches_off(load_file: Load) -> None:
    loaded = load_file({"servers": {"a": {"command": "x", "envFile": ".env"}, "b": {"command": "x"}}})
    assert [server.enabled for server in loaded.config.servers] == [False, True]
    assert [problem.where for problem in loaded.problems] == ["servers.a.envFile"]


def test_what_an_env_file_holds_is_secret_and_env_goes_before_it(load_file: Load, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=file-1\nB=file-2\n")
    loaded = load_file({"servers": {"a": {"command": "x", "envFile": ".env", "env": {"B": "own"}}}})
    assert loaded.config.servers[0].env == {"A": "file-1", "B": "own"}
    assert {"file-1", "file-2"} <= loaded.secrets


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b", "b"),
        ("export A = b ", "b"),
        ("A=b # why", "b"),
        ("A=b#c", "b#c"),
        ('A="b # c" # why', "b # c"),
        ("A='b'", "b"),
        ('A="b\\nc"', "b\nc"),
        ("A='b\\nc'", "b\\nc"),
        ("A=b\\nc", "b\\nc"),
        ("A=", ""),
        ("# A=b", None),
        ("A b", None),
    ],
)
def test_a_line_of_an_env_file(load_file: Load, tmp_path: Path, line: str, value: str | None) -> None:
    """E7: as other hosts read it."""
    (tmp_path / ".env").write_text(f"FIRST=1\n{line}\n")
    (server,) = load_file({"servers": {"a": {"command": "x", "envFile": ".env"}}}).config.servers
    assert server.env == {"FIRST": "1", **({} if value is None else {"A": value})}


def test_the_others(load_file: Load, tmp_path: Path) -> None:
    """Proves: E7."""
    (tmp_path / ".env").write_text("")
    cline = servers(load_file, host_configs.CLINE_AND_ROO)
    assert [server.type for server in cline.values()] == ["stdio", "http", "http", "sse"]
    assert [server.enabled for server in cline.values()] == [False, True, True, True]
    assert cline["roo"].tools.exclude == ("b",)
    assert servers(load_file, host_configs.WINDSURF)["remote"].headers == {"API_KEY": "Bearer key-1"}
    gemini = servers(load_file, host_configs.GEMINI)["http"]
    assert (gemini.type, gemini.tools.include, gemini.tools.exclude) == ("http", ("a", "b"), ("b",))
    assert servers(load_file, host_configs.COPILOT)["play"].tools.include == ("*",)
    assert servers(load_file, host_configs.CHERRY_STUDIO)["x1"].url == "https://a.example/mcp"
    assert servers(load_file, host_configs.CLAUDE_CODE)["api"].url == "https://api.example.com/mcp"


def test_our_own_keys_go_before_foreign_ones(load_file: Load) -> None:
    entry = {"serverUrl": "http://b", "url": "http://a", "disabled": True, "enabled": True}
    for ordered in (entry, dict(reversed(entry.items()))):
        server = load_file({"mcpServers": {"a": ordered}}).config.servers[0]
        assert (server.url, server.enabled) == ("http://a", True)
