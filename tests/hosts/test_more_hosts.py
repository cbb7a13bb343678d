"""What single hosts have that others do not: places, forms, and facts about them."""

import json
from pathlib import Path
from typing import Any

import pytest

from aggregator.dialects.names import dialect_of
from aggregator.gateway.dotless_hosts import refuses_dots
from aggregator.hosts.discover import FoundServer, discover
from aggregator.hosts.every_host import HOSTS, host_named
from aggregator.hosts.machine import host_environment
from aggregator.hosts.model import HostLimits, HostProgram, Machine, UnusableEntry
from tests.hosts.grounds import put


def test_every_host_has_a_source_a_way_in_and_names_of_its_own() -> None:
    names = [name for host in HOSTS for name in (host.id, *host.also)]
    assert len(set(names)) == len(names)
    assert all(name == name.lower() and " " not in name for name in names)
    for host in HOSTS:
        assert host.source.startswith("https://")
        machine = Machine("linux", Path("/nowhere"), {}, Path("/nowhere/else"))
        assert bool(host.files(machine)) != (host.paste is not None)


@pytest.mark.parametrize("host", [host for host in HOSTS if host.limits.client], ids=lambda host: host.id)
def test_every_name_of_a_client_has_a_dialect_and_its_spelling_of_tools(host: HostProgram) -> None:
    said = {"name": host.limits.client}
    assert dialect_of(said) != "original"
    assert refuses_dots(said) or not host.limits.plain


@pytest.mark.parametrize(
    ("name", "dotless"),
    [("Q-DEV-CLI", True), ("q-dev-cli", True), ("crush", False), ("opencode", False), ("", False), ("junie", False)],
)
def test_clients_that_change_or_refuse_dots(name: str, dotless: bool) -> None:
    assert refuses_dots({"name": name}) is dotless


@pytest.mark.parametrize(
    "name",
    ["Kilo-Code", "Kilo Code", "qwen-cli-mcp-client-files", "Kiro", "Kiro CLI", "factory-cli", "antigravity-client"],
)
def test_names_that_hosts_give_themselves(name: str) -> None:
    assert dialect_of({"name": name}) == "portable"


@pytest.mark.parametrize("name", ["crushed", "my-opencode-server", "wit", "kirogi"])
def test_names_that_only_look_like_them(name: str) -> None:
    assert dialect_of({"name": name}) == "original"


def servers(tmp_path: Path, host: str) -> dict[str, FoundServer]:
    machine = machine_at(tmp_path)
    return {server.name: server for file in discover(machine, [host_named(host)]) for server in file.servers}


def machine_at(tmp_path: Path) -> Machine:
    return Machine("linux", tmp_path / "home", {}, tmp_path / "folder")


@pytest.mark.parametrize(
    ("mcp", "names"),
    [
        ({"a": {"type": "local", "command": ["x"]}}, {"a"}),
        ({"servers": {"a": {"type": "local", "command": ["x"]}}}, {"a"}),
        ({"servers": {"type": "local", "command": ["x"]}}, {"servers"}),
        ({"servers": {}}, set()),
        ({"servers": 1}, {"servers"}),
    ],
    ids=["one", "two", "a server of this name", "empty", "no object"],
)
def test_both_places_of_opencode(tmp_path: Path, mcp: Any, names: set[str]) -> None:
    put(tmp_path / "home/.config/opencode/opencode.json", json.dumps({"mcp": mcp}))
    assert set(servers(tmp_path, "opencode")) == names


def test_a_broken_file_of_opencode_is_named_once(tmp_path: Path) -> None:
    path = put(tmp_path / "home/.config/opencode/opencode.json", "{")
    (found,) = discover(machine_at(tmp_path), [host_named("opencode")])
    assert str(path) in (found.problem or "")


@pytest.mark.parametrize(
    ("host", "entry", "fields", "note"),
    [
        ("opencode", {"command": ["x", "{file:~/key}"]}, {"command": "x", "args": ["{file:~/key}"]}, "{file:...}"),
        ("kilo-code", {"command": ["x", "{env:A}-{env:9}"]}, {"command": "x", "args": ["${A}-{env:9}"]}, None),
        ("opencode", {"command": ["x"], "timeout": 5000}, {"command": "x", "timeout": 5}, None),
        ("opencode", {"type": "remote", "url": "https://a.example"}, {"url": "https://a.example"}, None),
        ("crush", {"command": "x", "args": ["$(cat key)"]}, {"command": "x", "args": ["$(cat key)"]}, "in a shell"),
        ("crush", {"command": "x", "env": {"A": "$B"}}, {"command": "x", "env": {"A": "${B}"}}, None),
        (
            "cursor",
            {"command": "x", "timeout": 30000},
            {"command": "x", "timeout": 30},
            "as milliseconds",
        ),
        ("cursor", {"command": "x", "timeout": 3600}, {"command": "x", "timeout": 3600}, None),
        ("cline", {"command": "x", "timeout": 30000}, {"command": "x", "timeout": 30000}, None),
        ("crush", {"command": "x", "timeout": 5}, {"command": "x", "limits": {"connect_timeout": 5}}, None),
        ("zed", {"command": "x", "timeout": 60000}, {"command": "x", "timeout": 60}, "as milliseconds"),
        ("zed", {"command": "x", "timeout": 60}, {"command": "x", "timeout": 60}, None),
        ("droid", {"command": "x", "timeoutMs": 1500}, {"command": "x", "timeout": 1.5}, None),
        ("warp", {"command": "x", "working_directory": "/w"}, {"command": "x", "cwd": "/w"}, None),
        ("5ire", {"type": "remote", "url": "https://a.example"}, {"url": "https://a.example"}, None),
        ("antigravity", {"serverUrl": "https://a.example"}, {"url": "https://a.example"}, None),
        ("qwen-code", {"httpUrl": "https://a.example"}, {"url": "https://a.example", "type": "http"}, None),
    ],
)
def test_forms_of_entries(host: str, entry: dict[str, Any], fields: dict[str, Any], note: str | None) -> None:
    program = host_named(host)
    assert program.read(entry) == fields
    notes = program.notes(entry)
    assert (note is None and notes == ()) or (note is not None and any(note in said for said in notes))


@pytest.mark.parametrize("command", [[], ["x", 1], [None]])
def test_a_list_that_is_no_command(command: list[Any]) -> None:
    with pytest.raises(UnusableEntry, match="`command`"):
        host_named("opencode").read({"type": "local", "command": command})


def test_a_switch_of_witsy(tmp_path: Path) -> None:
    text = {
        "mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}, "c": {"command": "z"}},
        "mcp": {"mcpServersExtra": {"a": {"state": "disabled"}, "b": {"state": "enabled"}, "c": 1}},
    }
    put(tmp_path / "home/.config/Witsy/settings.json", json.dumps(text))
    found = servers(tmp_path, "witsy")
    assert {name: (server.fields or {}).get("enabled", True) for name, server in found.items()} == {
        "a": False,
        "b": True,
        "c": True,
    }


@pytest.mark.parametrize("extra", [None, 1, {"mcpServersExtra": []}])
def test_settings_of_witsy_without_switches(tmp_path: Path, extra: Any) -> None:
    text = json.dumps({"mcpServers": {"a": {"command": "x"}}, "mcp": extra})
    put(tmp_path / "home/.config/Witsy/settings.json", text)
    assert servers(tmp_path, "witsy")["a"].fields == {"command": "x"}


def test_agents_of_amazon_q(tmp_path: Path) -> None:
    put(tmp_path / "home/.aws/amazonq/cli-agents/review.json", '{"mcpServers": {"a": {"command": "x"}}}')
    put(tmp_path / "home/.aws/amazonq/agents/default.json", '{"mcpServers": {"b": {"command": "x"}}}')
    put(tmp_path / "folder/.amazonq/mcp.json", '{"mcpServers": {"c": {"command": "x"}}}')
    assert set(servers(tmp_path, "amazon-q")) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("variable", "host", "name"),
    [
        ("OPENCODE_CONFIG", "opencode", ""),
        ("CRUSH_GLOBAL_CONFIG", "crush", "crush.json"),
        ("QODER_CONFIG_DIR", "qoder-cli", "settings.json"),
        ("XDG_CONFIG_HOME", "kilo-code", "kilo/kilo.json"),
        ("XDG_CONFIG_HOME", "opencode", "opencode/opencode.json"),
        ("XDG_CONFIG_HOME", "witsy", "Witsy/settings.json"),
    ],
)
def test_variables_that_move_files(tmp_path: Path, variable: str, host: str, name: str) -> None:
    moved = tmp_path / "moved"
    machine = Machine("linux", tmp_path / "home", {variable: str(moved)}, tmp_path / "folder")
    assert (moved / name if name else moved) in {file.path for file in host_named(host).files(machine)}


@pytest.mark.parametrize(
    ("limits", "taken"),
    [
        (HostLimits("x", longest=64), 64),
        (HostLimits("x", longest=64, prefix="mcp__{}__"), 64 - len("mcp__aggregator__")),
        (HostLimits("x"), 500),
    ],
)
def test_a_name_may_be_as_long_as_the_host_says(limits: HostLimits, taken: int) -> None:
    """F2: with what the host writes before it; a host that says nothing takes any."""
    names = ["a" * taken, "b" * (taken + 1)]
    assert limits.long_names(names, "aggregator") == (names[1:] if limits.longest is not None else [])


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.id)
def test_which_variables_a_host_gives_to_a_program(host: HostProgram) -> None:
    """All that it has, or a few that every program needs; doctor starts servers with these."""
    given = host_environment(host, "linux", {"HOME": "/home/ada", "PATH": "/home/ada/bin", "MY_OWN": "1"})
    assert given["HOME"] == "/home/ada"
    assert ("MY_OWN" in given) == (host.id in {"claude-code", "vscode", "vscode-insiders", "opencode"})
