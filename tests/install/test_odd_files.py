"""Host files as people and programs leave them: each is edited, and restored to the byte, or refused as it is."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.cli.hosts.install.host_files import choose_file
from aggregator.domain.errors import OperatorError
from aggregator.hosts.discover import discover
from aggregator.hosts.every_host import host_named
from aggregator.hosts.machine import this_machine
from tests.install.conftest import Install, tree

CANARY: Final = "canary-4f9a7c21e8"
IN_JSON: Final = (
    *("claude-desktop", "cursor", "vscode", "zed", "claude-code", "windsurf", "gemini-cli", "lm-studio"),
    *("opencode", "copilot-cli", "amp"),
)
Keys = tuple[str, ...]


def _text(keys: Keys, servers: str, indent: str = "  ") -> str:
    """Return a file with this text as the object of servers, behind another setting."""
    before = "".join(f'{{\n{indent * (at + 1)}"{key}": ' for at, key in enumerate(keys))
    after = "".join(f"\n{indent * at}}}" for at in reversed(range(len(keys))))
    return before.replace("{", f'{{\n{indent}"theme": "dark",', 1) + servers + after + "\n"


def _one(keys: Keys, indent: str = "  ") -> str:
    deep = indent * (len(keys) + 1)
    return _text(keys, f'{{\n{deep}"a": {{"command": "{CANARY}"}}\n{indent * len(keys)}}}', indent)


FORMS: Final[Mapping[str, Callable[[Keys], bytes]]] = {
    "plain": lambda keys: _one(keys).encode(),
    "CRLF": lambda keys: _one(keys).replace("\n", "\r\n").encode(),
    "CR": lambda keys: _one(keys).replace("\n", "\r").encode(),
    "mixed line ends": lambda keys: _one(keys).replace("\n", "\r\n", 2).encode(),
    "BOM": lambda keys: b"\xef\xbb\xbf" + _one(keys).encode(),
    "BOM and CRLF": lambda keys: b"\xef\xbb\xbf" + _one(keys).replace("\n", "\r\n").encode(),
    "UTF-16": lambda keys: _one(keys).encode("utf-16"),
    "UTF-16 without a mark": lambda keys: _one(keys).encode("utf-16-le"),
    "UTF-32": lambda keys: _one(keys).encode("utf-32"),
    "tabs": lambda keys: _one(keys, "\t").encode(),
    "one line": lambda keys: json.dumps(json.loads(_one(keys))).encode(),
    "no space": lambda keys: json.dumps(json.loads(_one(keys)), separators=(",", ":")).encode(),
    "no line end": lambda keys: _one(keys).rstrip().encode(),
    "blank lines behind": lambda keys: (_one(keys) + "\n \n\t\n").encode(),
    "comment above": lambda keys: ("// mine\n" + _one(keys)).encode(),
    "comments within": lambda keys: _text(keys, '{ // "x": {\n /* } */ "a": {"command": "b"} // last\n }').encode(),
    "comment behind": lambda keys: (_one(keys) + "// end").encode(),
    "trailing comma": lambda keys: _text(keys, '{"a": {"command": "b"},}').encode(),
    "trailing comma and comment": lambda keys: _text(keys, '{"a": {"command": "b"}, // more\n}').encode(),
    "empty object": lambda keys: _text(keys, "{}").encode(),
    "empty object of lines": lambda keys: _text(keys, "{\n\n}").encode(),
    "only a comment in it": lambda keys: _text(keys, "{\n // none yet\n}").encode(),
    "null": lambda keys: _text(keys, "null").encode(),
    "list": lambda keys: _text(keys, "[]").encode(),
    "text": lambda keys: _text(keys, f'"{CANARY}"').encode(),
    "one server twice": lambda keys: _text(keys, '{"a": {"command": "b"}, "a": {"command": "c"}}').encode(),
    "servers twice": lambda keys: (
        "{"
        + ", ".join([json.dumps(json.loads(_one(keys)))[1:-1], json.dumps(json.loads(_text(keys, "{}")))[1:-1]])
        + "}"
    ).encode(),
    "our name is no object": lambda keys: _text(keys, '{"aggregator": null}').encode(),
    "escaped key": lambda keys: _one(keys).replace(f'"{keys[0]}"', f'"\\u{ord(keys[0][0]):04x}{keys[0][1:]}"').encode(),
    "no servers": lambda keys: b'{"theme": "dark"}',
    "no servers and a comment": lambda keys: b'{\n  "theme": "dark" // mine\n}\n',
    "empty root": lambda keys: b"{}",
    "empty": lambda keys: b"",
    "white space": lambda keys: b" \r\n\t\n",
    "only a comment": lambda keys: b"// nothing yet\n",
    "root null": lambda keys: b"null",
    "root list": lambda keys: b"[]",
    "cut": lambda keys: _one(keys).encode()[:-3],
    "two objects": lambda keys: (_one(keys) * 2).encode(),
    "Latin-1": lambda keys: _text(keys, '{"ä": {"command": "b"}}').encode("latin-1"),
    "NUL": lambda keys: b"\0" * 64,
    "conflict of git": lambda keys: b"<<<<<<< HEAD\n" + _one(keys).encode(),
    "single quotes": lambda keys: _one(keys).replace('"', "'").encode(),
    "raw control character": lambda keys: _text(keys, '{"a": {"command": "x\x01y"}}').encode(),
    "lone surrogate": lambda keys: _text(keys, '{"a": {"command": "\\ud83d"}}').encode(),
    "large": lambda keys: _text(keys, json.dumps({f"s{at}": {"command": "b" * 90} for at in range(3_000)})).encode(),
}
TOML: Final[Mapping[str, bytes]] = {
    "plain": b'model = "x"\n\n[mcp_servers.a]\ncommand = "b"\n',
    "CRLF": b'model = "x"\r\n\r\n[mcp_servers.a]\r\ncommand = "b"\r\n',
    "BOM": b'\xef\xbb\xbfmodel = "x"\n',
    "comments": b'# mine\nmodel = "x" # here\n[mcp_servers.a] # there\ncommand = "b"\n# end',
    "inline": b'mcp_servers = { a = { command = "b" } }\n',
    "inline and empty": b"mcp_servers = {}\n",
    "dotted": b'mcp_servers.a.command = "b"\n',
    "quoted": b'[mcp_servers."a b"]\ncommand = "b"\n',
    "table of its own": b'[mcp_servers]\n\n[mcp_servers.a]\ncommand = "b"\n[other]\nx = 1\n',
    "empty": b"",
    "white space": b"\n \n",
    "only a comment": b"# nothing yet\n",
    "one server twice": b'[mcp_servers.a]\ncommand = "b"\n[mcp_servers.a]\ncommand = "c"\n',
    "list": b"mcp_servers = []\n",
    "cut": b'[mcp_servers.a]\ncommand = "b',
    "UTF-16": 'model = "x"\n'.encode("utf-16"),
    "Latin-1": b'model = "\xe9"\n',
    "CR": b'model = "x"\r[mcp_servers.a]\rcommand = "b"\r',
}
YAML: Final[Mapping[str, bytes]] = {
    "plain": b"theme: dark\n",
    "CRLF": b"theme: dark\r\n",
    "BOM": b"\xef\xbb\xbftheme: dark\n",
    "comments": b"# mine\ntheme: dark # here\n# end",
    "document marks": b"---\ntheme: dark\n...\n",
    "flow": b"{theme: dark}\n",
    "empty": b"",
    "white space": b"\n \n",
    "only a comment": b"# nothing yet\n",
    "tab": b"theme:\n\tdark: 1\n",
    "one key twice": b"theme: dark\ntheme: light\n",
    "cut": b'theme: "dark',
    "list": b"- a\n",
    "UTF-16": "theme: dark\n".encode("utf-16"),
    "Latin-1": b"theme: \xe9\n",
}


class HostFileInstall:
    """Installs into the file of one host, whose content is given; `path` is that file."""

    def __init__(self, id: str, home: Path, install: Install) -> None:
        self._machine = this_machine()
        self._host, self._home, self._install = host_named(id), home, install
        self.file = choose_file(self._host, self._machine, "user", None)
        self.path = self.file.path

    def tried(self, content: bytes) -> str:
        """Install over a content, and take it back; return the sentence of a refusal, or an empty text.

        Whatever happens, the files are byte for byte as they were, and no secret of the file is shown.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(content)
        before = tree(self._home)
        shown, refusal = self._written()
        if refusal:
            assert str(self.path) in refusal
            assert CANARY not in refusal
            assert tree(self._home) == before
            return refusal
        (found,) = [one for one in discover(self._machine, [self._host]) if one.file == self.file]
        assert found.problem is None
        names = [server.name for server in found.servers]
        assert names.count("aggregator") == 1
        assert "points here already" in self._install(self._host.id)
        self._is_read_by_others(content)
        shown += self._install(self._host.id, "--undo", "--write")
        assert tree(self._home) == before
        assert CANARY not in shown
        return ""

    def _written(self) -> tuple[str, str]:
        """Return what an install prints, or the sentence with which it refuses."""
        try:
            return self._install(self._host.id, "--write"), ""
        except OperatorError as error:
            return "", str(error)

    def _is_read_by_others(self, content: bytes) -> None:
        """A file that any parser of JSON took is one after it, with our entry where that parser looks."""
        if self.file.format != "json":
            return
        try:
            old: Any = json.loads(content)
        except ValueError:
            return
        new: Any = json.loads(self.path.read_bytes())
        for key in self.file.servers:
            new, old = new[key], (old or {}).get(key)
        assert set(new) == {*(old or {}), "aggregator"}


# What no host can read, and what some would.
_NEVER: Final = {"root list", "list", "text", "cut", "two objects", "Latin-1", "NUL", "conflict of git"}
_NEVER_PLAIN: Final = {"comment above", "comments within", "trailing comma", "only a comment", "UTF-16"}
_ALWAYS: Final = {"plain", "CRLF", "BOM and CRLF", "tabs", "one line", "empty", "empty object", "null", "no servers"}


# Every form for a host that takes plain JSON alone and for one that takes more; for each of the others, every third.
_CASES: Final = [
    (host, form)
    for at, host in enumerate(IN_JSON)
    for number, form in enumerate(FORMS)
    if host in ("claude-desktop", "cursor") or number % 3 == at % 3
]


@pytest.mark.parametrize(("host", "form"), _CASES)
def test_json_as_people_have_it(host: str, form: str, home: Path, config: Path, install: Install) -> None:
    """E7."""
    at = HostFileInstall(host, home, install)
    refusal = at.tried(FORMS[form](at.file.servers))
    if form in _NEVER:
        assert refusal
    if form in _ALWAYS:
        assert not refusal
    if form in _NEVER_PLAIN and host_named(host).plain_json:
        assert refusal


@pytest.mark.parametrize("form", TOML)
def test_toml_as_people_have_it(form: str, home: Path, config: Path, install: Install) -> None:
    refusal = HostFileInstall("codex", home, install).tried(TOML[form])
    assert bool(refusal) == (form in {"one server twice", "list", "cut", "Latin-1", "CR"}), refusal


@pytest.mark.parametrize("form", YAML)
@pytest.mark.parametrize("host", ["goose", "continue"])
def test_yaml_as_people_have_it(host: str, form: str, home: Path, config: Path, install: Install) -> None:
    refusal = HostFileInstall(host, home, install).tried(YAML[form])
    if form in {"cut", "list", "tab", "Latin-1"}:
        assert refusal
    if form in {"plain", "CRLF", "comments", "empty"}:
        assert not refusal


@pytest.mark.parametrize(
    ("host", "content"),
    [
        ("cursor", '{\n  "mcpServers": {"a": {"env": {"X": "CANARY"}}},\n  "mcpServers": {}\n}\n'),
        ("cursor", '{"mcpServers": {"a": {"env": {"X": "CANARY"}}, "a": {"command": "c"}}}'),
        ("goose", "extensions:\n  a:\n    envs: {X: CANARY}\n    envs: {Y: b}\n"),
    ],
)
def test_a_secret_under_a_repeated_key_is_not_shown(
    host: str, content: str, home: Path, config: Path, install: Install
) -> None:
    """A parser drops the first of two values, and the preview shows the text."""
    at = HostFileInstall(host, home, install)
    at.path.parent.mkdir(parents=True, exist_ok=True)
    at.path.write_text(content.replace("CANARY", CANARY))
    shown = install(host) + install(host, "--write") + install(host, "--undo") + install(host, "--undo", "--only-entry")
    assert CANARY not in shown
    assert "[redacted]" in shown
