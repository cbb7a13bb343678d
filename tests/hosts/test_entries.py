"""Entries of hosts in our form, and our own entries in the form of each host."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.servers.secret_places import secret_places, with_references
from aggregator.hosts.every_host import HOSTS, host_named
from aggregator.hosts.model import HostProgram, OwnLaunch, UnusableEntry
from aggregator.hosts.own import conflicts, identity, is_own

# What has a meaning of its own in one host or another is left out: our own launch has none of it.
_TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="${}"), min_size=1, max_size=12)
_WORD = _TEXT.filter(lambda text: text.strip() == text)
_PAIRS = st.dictionaries(st.from_regex(r"[A-Za-z][A-Za-z_-]{0,8}", fullmatch=True), _TEXT, max_size=3)
# A path: a host may give a single word with spaces to a shell.
_PROGRAMS = st.builds(
    OwnLaunch,
    command=_WORD.map(lambda text: f"/usr/bin/{text}"),
    args=st.lists(_TEXT, max_size=4).map(tuple),
    env=_PAIRS,
)
_ADDRESSES = st.builds(
    OwnLaunch, url=st.integers(1, 65535).map(lambda port: f"http://127.0.0.1:{port}/mcp"), headers=_PAIRS
)


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.id)
@given(launch=_PROGRAMS | _ADDRESSES)
def test_what_is_written_for_a_host_is_read_back(host: HostProgram, launch: OwnLaunch) -> None:
    if launch.url is not None and "http" not in host.speaks:
        with pytest.raises(ValueError, match="starts programs alone"):
            host.write(launch)
        return
    entry = host.write(launch)
    read = host.read(entry)
    assert host.notes(entry) == ()
    again = OwnLaunch(
        read.get("command"),
        tuple(read.get("args", ())),
        read.get("env", {}),
        read.get("url"),
        read.get("headers", {}),
    )
    assert again == launch
    assert read.get("enabled", True) is True


def read(host: str, entry: dict[str, Any]) -> dict[str, Any]:
    return host_named(host).read({"command": "x", **entry} if "url" not in entry else entry)


@pytest.mark.parametrize(
    ("host", "written", "ours"),
    [
        ("claude-code", "${A:-b}", "${A:-b}"),
        ("cursor", "${env:A}/${userHome}", "${env:A}/${userHome}"),
        ("vscode", "${input:token-of-mine}", "${input:token-of-mine}"),
        ("gemini", "$A", "${A}"),
        ("gemini", "$A_B-$c", "${A_B}-$c"),
        ("gemini", "$Abc", "$Abc"),
        ("continue", "Bearer ${{ secrets.A }}", "Bearer ${A}"),
        ("continue", "${{secrets.ada/pack/A}}", "${A}"),
        ("vscode", "${command:azure.token}", "${$}{command:azure.token}"),
        ("vscode", "${config:a.b}", "${$}{config:a.b}"),
        ("cursor", "a ${ b", "a ${$}{ b"),
        ("cursor", "${A:-${B}}", "${A:-${B}}"),
    ],
)
def test_references_become_ours(host: str, written: str, ours: str) -> None:
    assert read(host, {"env": {"K": written}})["env"] == {"K": ours}
    assert read(host, {"args": ["-x", written]})["args"] == ["-x", ours]


def test_references_are_told_of_where_their_host_has_none() -> None:
    entry = {"command": "x", "env": {"K": "${A}"}}
    assert host_named("claude").notes(entry) == (
        "Claude Desktop passes ${NAME} on as it is; here it stands for the variable.",
    )
    assert host_named("cursor").notes(entry) == ()


@pytest.mark.parametrize(
    ("host", "entry", "ours"),
    [
        ("codex", {"env_vars": ["A", {"name": "B", "source": "local"}], "env": {"A": "1"}}, {"A": "1", "B": "${B}"}),
        ("goose", {"cmd": "x", "type": "stdio", "env_keys": ["A"], "envs": {"B": 2}}, {"A": "${A}", "B": "2"}),
        ("cursor", {"env": {"A": True, "B": 1, "C": None}}, {"A": "true", "B": "1"}),
    ],
)
def test_variables(host: str, entry: dict[str, Any], ours: dict[str, str]) -> None:
    assert read(host, entry)["env"] == ours


@pytest.mark.parametrize(
    ("host", "entry", "ours"),
    [
        ("codex", {"env_http_headers": {"X": "A"}, "http_headers": {"Y": "b"}}, {"X": "${A}", "Y": "b"}),
        ("goose", {"type": "streamable_http", "envs": {"A": "v"}, "headers": {"X": "b ${A} $C"}}, {"X": "b v ${C}"}),
        (
            "continue",
            {"apiKey": "k", "requestOptions": {"headers": {"X": "1"}}},
            {"Authorization": "Bearer k", "X": "1"},
        ),
    ],
)
def test_headers(host: str, entry: dict[str, Any], ours: dict[str, str]) -> None:
    address = {"uri" if host == "goose" else "url": "https://a.example/mcp"}
    assert host_named(host).read({**address, **entry})["headers"] == ours


@pytest.mark.parametrize(
    ("host", "entry", "problem"),
    [
        ("cursor", {}, "neither `command` nor `url`"),
        ("cursor", {"command": " "}, "neither `command` nor `url`"),
        ("cursor", {"command": 5}, "its `command` is no text"),
        ("cursor", {"command": "x", "args": [["a"]]}, "its `args` are no list of texts"),
        ("cursor", {"command": "x", "env": ["A=1"]}, "its `env` is no object"),
        ("cursor", {"command": "x", "env": {"A": {}}}, "its `env` holds something that is no text"),
        ("cursor", {"url": "ftp://a"}, "neither with http:// nor with https://"),
        ("cursor", {"url": "https://a", "type": "ws"}, "its `type` is none of stdio, http and sse"),
        ("cline", {"command": "x", "disabled": "maybe"}, "neither true nor false"),
        ("cline", {"command": "x", "timeout": "soon"}, "its `timeout` is no number of a time"),
        ("goose", {"type": "builtin", "name": "developer"}, "built into Goose"),
        ("zed", {"source": "extension", "settings": {}}, "comes from an extension of Zed"),
        ("continue", {"uses": "ada/thing"}, "taken from Continue's hub"),
        ("continue", {"type": "websocket", "url": "https://a"}, "websocket, which is not spoken"),
        ("codex", {"url": "https://a", "http_headers": {"X": 1}}, "a header, or the name of its variable, is no text"),
    ],
)
def test_entries_that_cannot_be_used(host: str, entry: dict[str, Any], problem: str) -> None:
    with pytest.raises(UnusableEntry) as raised:
        host_named(host).read(entry)
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("entry", "note"),
    [
        ({"command": "x", "oauth": {"clientSecret": "canary"}}, "Its sign-in (oauth) stays with Claude Code"),
        ({"command": "x", "headersHelper": "canary"}, "is not run here"),
        ({"command": "x", "args": "a b"}, "they are a list now"),
        ({"command": "x", "url": "https://canary"}, "It had `command` and `url`; the program is taken."),
        ({"url": "https://a", "env": {"A": "canary"}}, "Its `env` has no use"),
        ({"command": "x", "trusted": True}, "`trusted` is not known here"),
        ({"command": "x", "limits": {"connect_timeout": 1}}, "`limits` is not known here"),
    ],
)
def test_what_is_lost_is_told(entry: dict[str, Any], note: str) -> None:
    (said,) = host_named("claude-code").notes(entry)
    assert note in said
    assert "canary" not in said


@pytest.mark.parametrize(
    ("fields", "own"),
    [
        ({"command": "aggregator", "args": ["stdio"]}, True),
        ({"command": "C:\\Tools\\Aggregator.EXE", "args": []}, True),
        ({"command": "uvx", "args": ["aggregator", "stdio", "--config", "x"]}, True),
        ({"command": "uvx", "args": ["--from", "aggregator-mcp", "aggregator"]}, True),
        ({"command": "uvx", "args": ["aggregator-mcp@1.2", "stdio"]}, True),
        ({"command": "pipx", "args": ["run", "aggregator-mcp[keyring]==1.2", "stdio", "--agent", "a"]}, True),
        ({"command": "cmd", "args": ["/c", "aggregator", "stdio"]}, True),
        ({"command": "/usr/bin/python3.12", "args": ["-m", "aggregator", "stdio"]}, True),
        ({"command": "npx", "args": ["mcp-remote", "http://localhost:8642/mcp"]}, True),
        ({"url": "http://127.0.0.1:8642/sse"}, True),
        ({"url": "http://[::1]:8642/mcp"}, True),
        ({"url": "http://127.0.0.1:9999/mcp"}, False),
        ({"url": "https://gateway.example.com/mcp"}, False),
        ({"command": "npx", "args": ["-y", "aggregator-of-news", "stdio"]}, False),
        ({"command": "python", "args": ["-m", "other", "aggregator"]}, False),
    ],
)
def test_entries_of_our_own(fields: dict[str, Any], own: bool) -> None:
    assert is_own(fields, {8642}) is own


def test_an_entry_of_our_name_at_another_local_port_is_our_own() -> None:
    assert is_own({"url": "http://localhost:7000/mcp"}, {8642}, "Aggregator")
    assert not is_own({"url": "https://gateway.example.com/mcp"}, {8642}, "aggregator")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"command": "npx", "args": ["-y", "a@latest", "/x"]}, {"command": "/usr/bin/npx", "args": ["a", "/x"]}),
        ({"command": "cmd", "args": ["/c", "npx", "a"]}, {"command": "npx.cmd", "args": ["-y", "a"]}),
        ({"url": "https://A.example/mcp/"}, {"url": "https://a.example:443/mcp", "headers": {"X": "1"}}),
    ],
)
def test_one_server_in_two_spellings(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert identity(one) == identity(other)


def test_servers_that_differ() -> None:
    assert identity({"command": "npx", "args": ["a", "/x"]}) != identity({"command": "npx", "args": ["a", "/y"]})
    assert identity({"url": "https://a.example/one"}) != identity({"url": "https://a.example/two"})
    assert list(conflicts({"env": {"A": "1", "B": "2"}}, {"env": {"A": "1", "B": "3"}})) == ["B"]
    assert list(conflicts({"env": {"A": "1"}}, {"env": {"A": "x ${A}"}})) == []


_SECRET = "k9-canary-7f3e21"


@pytest.mark.parametrize(
    ("fields", "label", "name", "left"),
    [
        ({"env": {"API_KEY": _SECRET}}, "variable API_KEY", "API_KEY", {"env": {"API_KEY": "@"}}),
        (
            {"env": {"DB": f"postgres://u:{_SECRET}@h/d"}},
            "variable DB",
            "DB_PASSWORD",
            {"env": {"DB": "postgres://u:@@h/d"}},
        ),
        (
            {"headers": {"authorization": f"Bearer {_SECRET}", "Accept": "json"}},
            "header authorization",
            "TOKEN",
            {"headers": {"authorization": "Bearer @", "Accept": "json"}},
        ),
        ({"args": ["a", f"--api-key={_SECRET}"]}, "argument 2", "API_KEY", {"args": ["a", "--api-key=@"]}),
        ({"args": ["--token", _SECRET]}, "argument 2", "TOKEN", {"args": ["--token", "@"]}),
        ({"args": ["-e", f"GH_TOKEN={_SECRET}"]}, "argument 2", "GH_TOKEN", {"args": ["-e", "GH_TOKEN=@"]}),
        ({"args": [f"--env=GH_TOKEN={_SECRET}"]}, "argument 1", "GH_TOKEN", {"args": ["--env=GH_TOKEN=@"]}),
        ({"args": [f"-eGH_TOKEN={_SECRET}"]}, "argument 1", "EGH_TOKEN", {"args": ["-eGH_TOKEN=@"]}),
        (
            {"args": [f"--header=Authorization: Bearer {_SECRET}"]},
            "argument 1",
            "HEADER",
            {"args": ["--header=Authorization: Bearer @"]},
        ),
        ({"url": f"https://a/m?key={_SECRET}&v=1"}, "address", "KEY", {"url": "https://a/m?key=@&v=1"}),
        ({"url": "https://a/m?key=a%2Bb1234567"}, "address", "KEY", {"url": "https://a/m?key=@"}),
    ],
)
def test_secrets_in_the_clear_are_replaced_where_they_stand(
    fields: dict[str, Any], label: str, name: str, left: dict[str, Any]
) -> None:
    (place,) = secret_places(fields)
    assert (place.label, place.name) == (label, name)
    assert with_references(fields, {place: "@"}) == left
    assert _SECRET not in repr(place)


@pytest.mark.parametrize(
    "fields",
    [
        {"env": {"MAX_TOKENS": "4096", "MODE": "fast", "KEYBOARD": "qwerty"}},
        {"env": {"GOOGLE_APPLICATION_CREDENTIALS": "/home/ada/key.json", "API_KEY": "${API_KEY}"}},
        {"args": ["-y", "@scope/package", "--token", "${TOKEN}", "/home/ada/notes"]},
        {"headers": {"Authorization": "Bearer ${TOKEN}", "Accept": "application/json"}},
        {"url": "https://mcp.example.com/mcp?profile=free"},
    ],
)
def test_no_secret_is_seen_where_there_is_none(fields: dict[str, Any]) -> None:
    assert secret_places(fields) == ()


@given(
    st.lists(st.text("abk$1", min_size=1, max_size=6), min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(["API_KEY", "DB", "X_TOKEN"]), st.text("ab1:/@?=&", max_size=20)),
)
def test_references_that_are_filled_in_give_the_entry_back(args: list[str], env: dict[str, str]) -> None:
    fields = {"args": ["--api-key", *args], "env": env, "url": "https://u:ab1@h/?key=ab1"}
    references = {place: f"${{{number}}}" for number, place in enumerate(secret_places(fields))}
    replaced = with_references(fields, references)
    values = {reference: place.secret for place, reference in references.items()}

    def filled_in(text: str) -> str:
        for reference, value in values.items():
            text = text.replace(reference, value)
        return text

    assert [filled_in(text) for text in replaced["args"]] == fields["args"]
    assert {name: filled_in(text) for name, text in replaced["env"].items()} == env
    assert filled_in(replaced["url"]) == fields["url"]


def test_codex_is_told_to_wait_for_a_program_and_not_for_an_address() -> None:
    """It begins without a server that is not required after a second; one that is not served must not stop it."""
    codex = host_named("codex")
    assert codex.write(OwnLaunch(command="aggregator", args=("stdio",)))["required"] is True
    assert "required" not in codex.write(OwnLaunch(url="http://127.0.0.1:8642/mcp"))


# What the documentation of a host wants in an entry for a program, and in one for an address, beside these themselves.
_TAGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "claude-code": ({"type": "stdio", "alwaysLoad": True}, {"type": "http", "alwaysLoad": True}),
    "vscode": ({"type": "stdio"}, {"type": "http"}),
    "vscode-insiders": ({"type": "stdio"}, {"type": "http"}),
    "devin": ({}, {"transport": "http"}),
    "cline": ({"disabled": False}, {"type": "streamableHttp", "disabled": False}),
    "roo-code": ({"disabled": False}, {"type": "streamable-http", "disabled": False}),
    "kilo-code-legacy": ({"disabled": False}, {"type": "streamable-http", "disabled": False}),
    "codex": ({"required": True}, {}),
    "zed": ({"source": "custom"}, {}),
    "continue": ({"name": "aggregator", "type": "stdio"}, {"name": "aggregator", "type": "streamable-http"}),
    "copilot-cli": ({"type": "local", "tools": ["*"]}, {"type": "http", "tools": ["*"]}),
    "opencode": ({"type": "local"}, {"type": "remote"}),
    "kilo-code": ({"type": "local"}, {"type": "remote"}),
    "kiro": ({"disabled": False}, {"disabled": False}),
    "droid": ({"type": "stdio", "disabled": False}, {"type": "http", "disabled": False}),
    "crush": ({"type": "stdio"}, {"type": "http"}),
    "qoder-cli": ({}, {"type": "http"}),
    "goose": (
        {"name": "aggregator", "type": "stdio", "enabled": True, "timeout": 300, "envs": {}},
        {"name": "aggregator", "type": "streamable_http", "enabled": True, "timeout": 300, "headers": {}},
    ),
    "5ire": (
        {"name": "aggregator", "type": "local", "isActive": True},
        {"name": "aggregator", "type": "remote", "isActive": True},
    ),
}
_ITSELF = {"command", "cmd", "args", "url", "uri", "httpUrl", "serverUrl"}


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.id)
def test_an_entry_has_the_type_that_its_host_wants(host: HostProgram) -> None:
    """Without it, or with that of the other kind, the host leaves the server out; but we can read it."""
    program, address = _TAGS.get(host.id, ({}, {}))
    written = host.write(OwnLaunch(command="aggregator", args=("stdio",)))
    assert {name: value for name, value in written.items() if name not in _ITSELF} == program
    if "http" in host.speaks:
        written = host.write(OwnLaunch(url="http://127.0.0.1:8642/mcp"))
        assert {name: value for name, value in written.items() if name not in _ITSELF} == address
