"""Discovery of the files of hosts, and of the servers in them."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aggregator.domain.errors import OperatorError
from aggregator.hosts.discover import FoundFile, FoundServer, discover
from aggregator.hosts.every_host import HOSTS, host_named
from aggregator.hosts.model import HostFile, HostProgram, Machine, System
from tests.hosts.grounds import CANARY, FIXTURES, SYSTEMS, WITH_FILES, empty_machine, machine_with_fixtures, put
from tests.laws import examples

NOTES = {"linux": "/home/ada/notes", "macos": "/Users/ada/notes", "windows": "C:\\Users\\ada\\notes"}


def servers_of(files: tuple[FoundFile, ...]) -> dict[str, FoundServer]:
    return {server.name: server for file in files for server in file.servers}


def expected(host: str, system: System) -> dict[str, dict[str, Any] | None]:
    """Return the servers of the fixtures of a host, in our form; None for those that cannot be used."""
    npx = ["-y", "@modelcontextprotocol/server-filesystem", NOTES[system]]
    files: dict[str, Any] = {"command": "npx", "args": npx}
    if system == "windows":
        files = {"command": "cmd", "args": ["/c", "npx", *npx]}
    image = ["run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "ghcr.io/github/github-mcp-server"]
    token = {"GITHUB_PERSONAL_ACCESS_TOKEN": f"canary-env-4f9a7c21e8-{host}"}
    github: dict[str, Any] = {"command": "docker", "args": image, "env": token}
    header = f"Bearer canary-header-4f9a7c21e8-{host}"
    remote: dict[str, Any] = {"url": "https://mcp.example.com/mcp", "headers": {"Authorization": header}}
    typed = {"type": "http", **remote}
    off = {"command": "uvx", "args": ["mcp-server-time"], "enabled": False}
    asks = {"type": "http", "url": "https://asks.example.com/mcp"}
    asks_vscode = {**asks, "headers": {"Authorization": "Bearer ${input:github-token}"}}
    common: dict[str, dict[str, Any] | None] = {"files": files, "github": github, "remote": remote}
    passed_on = {
        "command": "npx",
        "args": ["-y", "mcp-remote", remote["url"], "--header", f"Authorization: {header}"],
    }
    asks_by_variable = {"url": "https://asks.example.com/mcp", "headers": {"Authorization": "Bearer ${ASKS_KEY}"}}
    own: dict[str, dict[str, dict[str, Any] | None]] = {
        "claude-desktop": {"remote": passed_on},
        "claude-code": {"remote": typed, "off": off},
        "vscode": {"remote": typed, "asks": asks_vscode},
        "vscode-insiders": {"remote": typed, "asks": asks_vscode},
        "devin": {"remote": typed, "off": off},
        "windsurf": {"github": {**github, "tools": {"exclude": ["delete_file"]}}, "off": off},
        "cline": {"files": {**files, "timeout": 60}, "remote": typed, "off": off},
        "roo-code": {"remote": typed, "off": off},
        "codex": {
            "files": {**files, "limits": {"connect_timeout": 20}},
            "token": {"url": "https://token.example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN_OF_MINE}"}},
            "off": off,
        },
        "gemini-cli": {"files": {**files, "timeout": 30}, "remote": typed, "off": off},
        "zed": {"off": off, "extended": None},
        "continue": {
            "remote": typed,
            "asks": {
                "type": "sse",
                "url": "https://asks.example.com/sse",
                "headers": {"Authorization": "Bearer ${ASKS_KEY}"},
            },
            "unnamed": None,
        },
        "goose": {
            "developer": None,
            "files": {**files, "timeout": 300},
            "github": {**github, "env": {**token, "GITHUB_HOST": "${GITHUB_HOST}"}},
            "remote": typed,
            "off": off,
        },
        "copilot-cli": {"github": {**github, "tools": {"include": ["get_me"]}}, "remote": typed},
        "opencode": {"asks": asks_by_variable, "off": off},
        "kilo-code": {"asks": asks_by_variable, "off": off},
        "kilo-code-legacy": {"remote": typed, "off": off},
        "antigravity": {"off": off},
        "kiro": {"github": {**github, "tools": {"exclude": ["delete_file"]}}, "off": off},
        "qwen-code": {"files": {**files, "timeout": 30}, "remote": typed, "off": off},
        "droid": {"files": {**files, "timeout": 30}, "remote": typed, "off": off},
        "amp": {"github": {**github, "tools": {"include": ["get_me"]}}, "off": off},
        "amazon-q": {"files": {**files, "timeout": 60}, "off": off},
        "crush": {
            "files": {**files, "limits": {"connect_timeout": 120}},
            "github": {**github, "tools": {"exclude": ["delete_file"]}},
            "remote": typed,
            "off": off,
        },
        "qoder-cli": {"remote": typed},
        "boltai": {"remote": passed_on},
        "5ire": {"off": off},
        "witsy": {"remote": passed_on, "off": off},
    }
    return {**common, **own.get(host, {})}


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("host", WITH_FILES, ids=lambda host: host.id)
def test_servers_of_every_host_on_every_system(host: HostProgram, system: System, tmp_path: Path) -> None:
    machine = machine_with_fixtures(system, tmp_path)
    found = discover(machine, [host])
    assert not [file.problem for file in found if file.problem]
    servers = {name: server.fields for name, server in servers_of(found).items()}
    assert servers == expected(host.id, system)


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_fixture_is_read_and_has_a_source(system: System, tmp_path: Path) -> None:
    machine = machine_with_fixtures(system, tmp_path)
    read = {file.file.path.relative_to(tmp_path).as_posix() for file in discover(machine)}
    there = {
        path.relative_to(FIXTURES / system).as_posix() for path in (FIXTURES / system).rglob("*") if path.is_file()
    }
    assert read == there
    sources = (FIXTURES / "SOURCES.md").read_text()
    assert all(f"| {system} | `{path}` | <https://" in sources for path in there)


def test_no_secret_is_in_the_notes_or_in_the_text_of_what_is_found(tmp_path: Path) -> None:
    for system in SYSTEMS:
        found = discover(machine_with_fixtures(system, tmp_path / system))
        assert len(servers_of(found)) > 5
        assert CANARY not in repr(found)


def test_the_first_of_two_hosts_has_a_file_that_both_read(tmp_path: Path) -> None:
    machine = empty_machine(tmp_path)
    put(machine.folder / ".mcp.json", '{"mcpServers": {"a": {"command": "x"}}}')
    assert [file.host.id for file in discover(machine)] == ["claude-code"]
    assert [file.host.id for file in discover(machine, [host_named("copilot")])] == ["copilot-cli"]


def test_projects_of_claude_code(tmp_path: Path) -> None:
    machine = machine_with_fixtures("linux", tmp_path)
    code = [host_named("claude-code")]
    assert "elsewhere" not in servers_of(discover(machine, code))
    everywhere = servers_of(discover(machine, code, all_projects=True))
    assert everywhere["elsewhere"].fields == {"type": "sse", "url": "https://sse.example.com/sse"}


def test_a_project_of_claude_code_switches_servers_of_its_folder_off(tmp_path: Path) -> None:
    machine = empty_machine(tmp_path)
    entries = '"a": {"command": "x"}, "b": {"command": "y"}, "c": {"command": "z"}'
    put(machine.folder / ".mcp.json", f'{{"mcpServers": {{{entries}}}}}')
    put(machine.folder / ".claude" / "settings.local.json", '{"disabledMcpjsonServers": ["b"]}')
    project = {str(machine.folder): {"disabledMcpjsonServers": ["c"]}}
    put(machine.home / ".claude.json", json.dumps({"projects": project}))
    found = {name: server.fields for name, server in servers_of(discover(machine)).items()}
    assert found == {
        "a": {"command": "x"},
        "b": {"command": "y", "enabled": False},
        "c": {"command": "z", "enabled": False},
    }


def test_servers_that_gemini_does_not_allow_are_off(tmp_path: Path) -> None:
    machine = empty_machine(tmp_path)
    text = '{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}, "mcp": {"allowed": ["a"]}}'
    put(machine.home / ".gemini" / "settings.json", text)
    found = servers_of(discover(machine))
    assert found["a"].fields == {"command": "x"}
    assert found["b"].fields == {"command": "y", "enabled": False}


def test_servers_under_the_key_of_another_host(tmp_path: Path) -> None:
    """E7: people paste the entries of one host into the file of another; doctor and install look at what is read."""
    machine = empty_machine(tmp_path, "linux")
    entry = {"command": "uvx", "args": ["mcp-server-time"]}
    put(machine.home / ".config/Code/User/mcp.json", json.dumps({"mcpServers": {"a": entry}}))
    put(machine.home / ".config/Code/User/settings.json", json.dumps({"mcpServers": {"b": entry}, "servers": {"x": 1}}))
    put(machine.home / ".cursor/mcp.json", json.dumps({"servers": {"c": entry}}))
    put(machine.home / ".codex/config.toml", '[mcpServers.d]\ncommand = "uvx"\nargs = ["mcp-server-time"]\n')
    put(machine.home / ".kiro/settings/mcp.json", json.dumps({"mcpServers": {}, "servers": {"e": entry}}))
    put(machine.home / ".qwen/settings.json", json.dumps({"servers": {"f": {"region": "eu"}}}))
    found = servers_of(discover(machine, misplaced=True))
    assert {name: server.fields for name, server in found.items()} == dict.fromkeys("abcd", entry)
    assert (
        found["b"].notes[0] == "It stands under `mcpServers`, and VS Code reads `mcp.servers`: it has no effect there."
    )
    assert servers_of(discover(machine)) == {}


def test_profiles_and_both_files_of_vs_code(tmp_path: Path) -> None:
    machine = empty_machine(tmp_path, "macos")
    user = machine.home / "Library" / "Application Support" / "Code" / "User"
    put(user / "mcp.json", '{"servers": {"a": {"command": "x"}}}')
    put(user / "settings.json", '{"editor.fontSize": 12, "mcp": {"inputs": [], "servers": {"b": {"command": "x"}}}}')
    put(user / "profiles" / "-4d3" / "mcp.json", '{"servers": {"c": {"command": "x"}}}')
    put(machine.folder / ".vscode" / "mcp.json", '{"servers": {"d": {"command": "x"}}}')
    found = [(file.file.scope, server.name) for file in discover(machine) for server in file.servers]
    assert found == [("project", "d"), ("user", "a"), ("user", "b"), ("profile", "c")]


def test_blocks_of_continue_in_both_formats(tmp_path: Path) -> None:
    machine = empty_machine(tmp_path)
    blocks = machine.folder / ".continue" / "mcpServers"
    put(blocks / "one.yaml", "name: x\nmcpServers:\n  - name: one\n    command: x\n")
    put(blocks / "two.json", '{"mcpServers": {"two": {"command": "y"}}}')
    put(blocks / "notes.txt", "nothing")
    old = '{"experimental": {"modelContextProtocolServers": [{"transport": {"type": "stdio", "command": "z"}}]}}'
    put(machine.home / ".continue" / "config.json", old)
    found = {name: server.fields for name, server in servers_of(discover(machine)).items()}
    assert found == {"one": {"command": "x"}, "two": {"command": "y"}, "unnamed": {"command": "z"}}


def test_variables_move_the_files_of_hosts(tmp_path: Path) -> None:
    environ = {
        "CODEX_HOME": str(tmp_path / "codex"),
        "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"),
        "XDG_CONFIG_HOME": str(tmp_path / "xdg"),
        "COPILOT_HOME": "relative/is/not/heeded",
        "GOOSE_PATH_ROOT": str(tmp_path / "goose"),
        "CLINE_MCP_SETTINGS_PATH": str(tmp_path / "cline.json"),
    }
    machine = Machine("linux", tmp_path / "home", environ, tmp_path / "folder")
    paths = {host.id: {file.path for file in host.files(machine)} for host in HOSTS}
    assert tmp_path / "codex" / "config.toml" in paths["codex"]
    assert tmp_path / "claude" / ".claude.json" in paths["claude-code"]
    assert tmp_path / "xdg" / "Code" / "User" / "mcp.json" in paths["vscode"]
    assert tmp_path / "xdg" / "zed" / "settings.json" in paths["zed"]
    assert tmp_path / "home" / ".copilot" / "mcp-config.json" in paths["copilot-cli"]
    assert tmp_path / "goose" / "config" / "config.yaml" in paths["goose"]
    assert tmp_path / "cline.json" in paths["cline"]


@pytest.mark.parametrize(
    ("host", "variable", "usual", "rest"),
    [
        ("gemini-cli", "ProgramData", "C:/ProgramData", "gemini-cli/settings.json"),
        ("claude-code", "ProgramFiles", "C:/Program Files", "ClaudeCode/managed-mcp.json"),
        ("claude-desktop", "APPDATA", "AppData/Roaming", "Claude/claude_desktop_config.json"),
        ("vscode", "APPDATA", "AppData/Roaming", "Code/User/mcp.json"),
        ("goose", "APPDATA", "AppData/Roaming", "Block/goose/config/config.yaml"),
        ("crush", "LOCALAPPDATA", "AppData/Local", "crush/crush.json"),
    ],
)
def test_folders_of_windows_that_are_elsewhere(tmp_path: Path, host: str, variable: str, usual: str, rest: str) -> None:
    """The folders that Windows names by a variable, such as on another drive, and the usual ones without it."""
    home = tmp_path / "home"
    usual_folder = Path(usual) if usual.startswith("C:") else home / usual
    for environ, folder in (({variable: str(tmp_path / "else")}, tmp_path / "else"), ({}, usual_folder)):
        machine = Machine("windows", home, environ, tmp_path / "folder")
        assert folder / rest in {file.path for file in host_named(host).files(machine)}


def cursor_problem(tmp_path: Path, content: bytes) -> str | None:
    machine = empty_machine(tmp_path)
    put(machine.home / ".cursor" / "mcp.json", content)
    (found,) = discover(machine)
    return found.problem


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"mcpServers": {"a": {"env": {"K": "canary"', "line 1, column 44: this is not JSON"),
        (b'["canary"]', "expected an object at the root"),
        (b'{"mcpServers": ["canary"]}', "`mcpServers` is not an object. Correct it there."),
        (b'{"mcpServers": "canary"}', "`mcpServers` is not an object."),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        (b'{"mcpServers": {"canary": "\xe9"}}', "is not UTF-8 text"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"mcpServers": {"canary": NaN}}', "a number that cannot be used"),
        # Each would take an hour if the rest of the file were looked through from every comment or text in it.
        (b"{" + b"/*" * 1_000_000, "Write a key in double quotes here"),
        (b'{"' + b'\\"' * 1_000_000, "has no closing double quote"),
    ],
    ids=["cut", "list", "servers-list", "servers-text", "utf16", "latin1", "deep", "nan", "comments", "quotes"],
)
def test_what_is_no_configuration_is_told_without_its_values(tmp_path: Path, content: bytes, said: str) -> None:
    problem = cursor_problem(tmp_path, content)
    assert problem is not None
    assert said in problem
    assert str(tmp_path / "home" / ".cursor" / "mcp.json") in problem
    assert CANARY not in problem


@pytest.mark.parametrize(
    "content",
    [b"", b"  \r\n", b"\xef\xbb\xbf", b"{}", b'{"mcpServers": null}', b'{"mcpServers": {}}', b'{"other": {"a": {}}}'],
)
def test_files_without_servers_are_no_problem(tmp_path: Path, content: bytes) -> None:
    assert cursor_problem(tmp_path, content) is None


def test_a_host_file_as_people_write_it(tmp_path: Path) -> None:
    machine = empty_machine(tmp_path)
    text = (
        '\ufeff// mine\r\n{\r\n  "mcpServers": {\r\n    "a": {"command": "old"}, /* twice */\r\n'
        '    "a": {"Command": "no", "command": "npx -y thing",},\r\n    "b": "text",\r\n  },\r\n}\r\n'
    )
    put(machine.home / ".cursor" / "mcp.json", text)
    found = servers_of(discover(machine))
    assert found["a"].fields == {"command": "npx", "args": ["-y", "thing"]}
    assert found["a"].notes == (
        "Its name is there twice in the file; the last one counts.",
        "`Command` is not known here and is left out.",
        "Its `command` held arguments too; they are in `args` now.",
    )
    assert found["b"].problem == "it is no object"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (".codex/config.toml", b"[mcp_servers.a]\ncommand = canary\n", "line 2, column 11: this is not TOML"),
        (".codex/config.toml", b"[mcp_servers.a]\ncommand = 'canary", "this is not TOML"),
        (
            ".config/goose/config.yaml",
            b"extensions:\n  a: [canary\n",
            ".yaml, line 3, column 1: this is not YAML. Correct it there.",
        ),
        (
            ".config/goose/config.yaml",
            b"extensions: !!python/object:canary {}\n",
            ".yaml, line 1, column 13: this is not YAML. Correct it there.",
        ),
        (".config/goose/config.yaml", b"extensions: {a: !!int x}\n", "config.yaml is not YAML that can be read. Quote"),
        (".config/goose/config.yaml", b"extensions: canary\n", "`extensions` is not an object"),
        (".config/goose/config.yaml", b"a: " + b"x" * 2**21, "larger than 1 MiB"),
        (".config/goose/config.yaml", b"[" * 100_000, "nested too deeply"),
    ],
)
def test_toml_and_yaml_that_cannot_be_read(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    machine = empty_machine(tmp_path)
    put(machine.home / name, content)
    (found,) = discover(machine)
    assert said in (found.problem or "")
    assert CANARY not in (found.problem or "")


def test_what_is_no_file(tmp_path: Path) -> None:
    machine = empty_machine(tmp_path)
    (machine.home / ".cursor" / "mcp.json").mkdir(parents=True)
    loop = machine.home / ".lmstudio" / "mcp.json"
    loop.parent.mkdir()
    loop.symlink_to(loop)
    dangling = machine.home / ".copilot" / "mcp-config.json"
    dangling.parent.mkdir()
    dangling.symlink_to(tmp_path / "nowhere")
    pipe = machine.home / ".codeium" / "windsurf" / "mcp_config.json"
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    put(machine.home / ".gemini" / "settings.json", b"/" * (20 * 2**20))
    problems = {file.host.id: file.problem or "" for file in discover(machine)}
    assert "is a folder" in problems["cursor"]
    assert "cannot be read" in problems["lm-studio"]
    assert "cannot be read" in problems["copilot-cli"]
    assert "not an ordinary file" in problems["windsurf"]
    assert "larger than 16 MiB" in problems["gemini-cli"]


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = empty_machine(tmp_path)
    file = machine.home / ".cursor" / "mcp.json"
    put(file, "{}")
    opened = os.open

    def refuse(path: Any, *args: Any, **options: Any) -> int:
        """Refuse this file, which a mode does not do for root."""
        if path == file:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, *args, **options)

    monkeypatch.setattr(os, "open", refuse)
    (found,) = discover(machine)
    assert "cannot be read: Permission denied" in (found.problem or "")


def test_an_unknown_host() -> None:
    assert host_named("Claude_Desktop").id == host_named("claude").id == "claude-desktop"
    with pytest.raises(OperatorError, match=r"no host 'emacs' that is known here\. Name one of: claude-desktop, "):
        host_named("emacs")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_KEYS = (
    *("command", "cmd", "args", "env", "envs", "url", "uri", "serverUrl", "httpUrl", "headers", "type", "transport"),
    *("timeout", "enabled", "disabled", "tools", "cwd", "envFile", "env_vars", "env_keys", "bearer_token_env_var"),
    *("http_headers", "env_http_headers", "requestOptions", "apiKey", "uses", "name", "startup_timeout_sec", "oauth"),
)
_ENTRIES = st.dictionaries(st.sampled_from(_KEYS) | st.text(max_size=5), _JSON, max_size=6)


@pytest.mark.parametrize("host", WITH_FILES, ids=lambda host: host.id)
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=60) | st.text(alphabet="{}[]\":,\n -=#${&*!|>%@`'abc", max_size=60).map(str.encode))
def test_no_bytes_make_discovery_raise(host: HostProgram, tmp_path: Path, content: bytes) -> None:
    machine = Machine("linux", tmp_path / "home", {}, tmp_path / "folder")
    for file in host.files(machine):
        if tmp_path in file.path.parents:
            put(file.path, content)
    found = discover(machine, [host])
    assert found
    assert all(file.problem is None or file.problem.startswith(str(file.file.path)) for file in found)


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.id)
@settings(max_examples=examples(60), deadline=None)
@given(entries=st.dictionaries(st.text(max_size=6), _ENTRIES | _JSON, max_size=3))
def test_no_values_make_discovery_raise(host: HostProgram, entries: dict[str, Any]) -> None:
    found = found_in(host, entries)
    assert len(found.servers) == len(entries)
    assert all((server.fields is None) == (server.problem is not None) for server in found.servers)


def found_in(host: HostProgram, entries: dict[str, Any]) -> FoundFile:
    """Return what is found in entries of one host, without a file."""
    from aggregator.hosts import discover as discovery

    return discovery._found(host, HostFile(Path("/x"), "user", "json", ("s",)), {"s": entries})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".codex/config.toml", "[mcp_servers.a]\ncommand = 'ö'\n"),
        (".config/goose/config.yaml", "extensions:\n  a: {type: stdio, cmd: ö}\n"),
        (".cursor/mcp.json", '{"mcpServers": {"a": {"command": "ö"}}}'),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_files_as_notepad_writes_them(name: str, text: str, encoding: str, tmp_path: Path) -> None:
    machine = empty_machine(tmp_path)
    put(machine.home / name, text.replace("\n", "\r\n").encode(encoding))
    assert servers_of(discover(machine))["a"].fields == {"command": "ö"}


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"])
def test_a_file_that_is_a_mark_alone(mark: bytes, tmp_path: Path) -> None:
    assert cursor_problem(tmp_path, mark) is None
