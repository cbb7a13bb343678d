"""The environment changes or adds servers."""

import pytest

from aggregator.config.load import Loaded, load
from tests import ON_WINDOWS

from .conftest import Load

STDIO = {"command": "legal-server", "args": ["a"], "env": {"A": "b"}}
SSE = {"type": "sse", "url": "http://old/sse", "headers": {"A": "b"}, "timeout": "5s"}


def legal(url: str | None = None, transport: str | None = None, timeout: str | None = None) -> dict[str, str]:
    values = {"SERVER_URL": url, "TRANSPORT": transport, "TIMEOUT": timeout}
    return {f"LEGAL_MCP_{name}": value for name, value in values.items() if value is not None}


def places(loaded: Loaded) -> list[tuple[str, str, str]]:
    return [(problem.file, problem.where, problem.severity) for problem in loaded.problems]


def test_a_server_from_the_environment_alone() -> None:
    """Proves: C16, E7."""
    loaded = load(None, legal("http://127.0.0.1:9000/sse", "sse", "1500"))
    (server,) = loaded.config.servers
    assert not loaded.problems
    assert (server.id, server.type, server.url, server.timeout) == ("legal", "sse", "http://127.0.0.1:9000/sse", 1.5)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (legal("http://new/mcp"), {"type": "auto"}),
        (legal("http://new/mcp", "HTTP"), {"type": "http"}),
        (
            legal("uvx 'legal server' --x", "stdio"),
            {"type": "stdio", "command": "uvx", "args": ("legal server", "--x")},
        ),
        ({"MY_LEGAL_MCP_SERVER_URL": "http://new"}, {"id": "my_legal"}),
    ],
)
def test_what_is_added(environ: dict[str, str], expected: dict[str, object]) -> None:
    """Proves: C16."""
    (server,) = load(None, environ).config.servers
    assert {name: getattr(server, name) for name in expected} == expected


@pytest.mark.skipif(not ON_WINDOWS, reason="a backslash is no letter in a command line of POSIX")
def test_a_command_line_of_windows_keeps_its_path() -> None:
    (server,) = load(None, legal(r"C:\Tools\legal.exe 'legal server' D:\data", "stdio")).config.servers
    assert (server.command, server.args) == (r"C:\Tools\legal.exe", ("legal server", r"D:\data"))


@pytest.mark.parametrize(
    ("entry", "environ", "expected"),
    [
        (SSE, legal("http://new/sse"), {"type": "sse", "url": "http://new/sse", "headers": {"A": "b"}, "timeout": 5}),
        (SSE, legal(transport="http"), {"type": "http", "url": "http://old/sse"}),
        (SSE, legal(timeout="2500"), {"type": "sse", "timeout": 2.5}),
        (SSE, legal("x y", "stdio"), {"type": "stdio", "command": "x", "args": ("y",), "url": None, "headers": {}}),
        (STDIO, legal("http://new"), {"type": "auto", "command": None, "env": {}}),
        ({"target": "a.b:c"}, legal("http://new"), {"type": "auto", "target": None}),
        (STDIO, legal("new-server b", "stdio"), {"type": "stdio", "command": "new-server", "env": {"A": "b"}}),
        ({"url": "http://a?${NONE}"}, legal("http://new"), {"enabled": True, "url": "http://new"}),
        ({"command": "x", "timeout": "${NONE}"}, legal(timeout="1"), {"enabled": True, "timeout": 0.001}),
    ],
)
def test_what_is_changed(load_file: Load, entry: object, environ: dict[str, str], expected: dict[str, object]) -> None:
    """Proves: C16."""
    loaded = load_file({"mcpServers": {"legal": entry}}, environ)
    (server,) = loaded.config.servers
    assert {name: getattr(server, name) for name in expected} == expected
    assert not loaded.problems


def test_keys_are_matched_without_capitals_and_signs(load_file: Load) -> None:
    loaded = load_file({"mcpServers": {"my-Legal.server": STDIO}}, {"MY_LEGAL_SERVER_MCP_TIMEOUT": "1000"})
    assert [server.timeout for server in loaded.config.servers] == [1]


@pytest.mark.parametrize(
    ("environ", "where"),
    [
        (legal("ftp://new"), "LEGAL_MCP_SERVER_URL"),
        (legal("'open", "stdio"), "LEGAL_MCP_SERVER_URL"),
        (legal("''", "stdio"), "LEGAL_MCP_SERVER_URL"),
        (legal(transport="carrier pigeon"), "LEGAL_MCP_TRANSPORT"),
        (legal(transport="http"), "LEGAL_MCP_TRANSPORT"),
        (legal(timeout="soon"), "LEGAL_MCP_TIMEOUT"),
        (legal(timeout="0"), "LEGAL_MCP_TIMEOUT"),
        (legal(timeout="inf"), "LEGAL_MCP_TIMEOUT"),
        (legal(timeout="nan"), "LEGAL_MCP_TIMEOUT"),
        ({"OTHER_MCP_TIMEOUT": "1000"}, "OTHER_MCP_TIMEOUT"),
        ({"OTHER_MCP_TRANSPORT": "sse"}, "OTHER_MCP_TRANSPORT"),
        ({"OTHER_MCP_TIMEOUT": "soon"}, "OTHER_MCP_TIMEOUT"),
    ],
)
def test_what_cannot_be_used_is_a_warning(load_file: Load, environ: dict[str, str], where: str) -> None:
    """Proves: C16."""
    loaded = load_file({"mcpServers": {"legal": STDIO}}, environ)
    (server,) = loaded.config.servers
    assert (server.type, server.command, server.timeout) == ("stdio", "legal-server", 30)
    assert places(loaded) == [("environment", where, "warning")]


def test_an_address_that_is_none_adds_nothing() -> None:
    loaded = load(None, legal("ftp://u:secret@new"))
    assert not loaded.config.servers
    assert "secret" not in "".join(str(problem) for problem in loaded.problems)
    assert places(loaded)[0] == ("environment", "LEGAL_MCP_SERVER_URL", "warning")


def test_empty_values_are_not_set() -> None:
    loaded = load(None, legal("", " ", ""))
    assert not loaded.config.servers
    assert not loaded.problems


@pytest.mark.parametrize("url", ["https://a.example/k3y/mcp", "uvx legal --key k3y", "no address"])
def test_an_address_from_the_environment_is_hidden_as_other_variables_are(load_file: Load, url: str) -> None:
    """D9: it may hold a key, also one that cannot be used."""
    for loaded in (load(None, legal(url)), load_file({"mcpServers": {"legal": STDIO}}, legal(url))):
        assert url in loaded.secrets
        assert url not in loaded.redactor(f"cannot reach {url} now")
