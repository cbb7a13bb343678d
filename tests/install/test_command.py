"""`aggregator install HOST` and its undo, on the files of one host."""

import dataclasses
import json
import os
import shlex
import stat
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from aggregator.cli.commands import app
from aggregator.cli.hosts.install.program import OwnCommand
from aggregator.editing import replace as replacing
from aggregator.hosts.editors import CURSOR
from tests.install.conftest import Install, json_of, tree

CANARY = "ghp_k4n4ry0123456789abcdefghijklmnopqrstu"
OTHERS = f"""{{
  // comments, and commas at the end
  "theme": "dark",
  "mcpServers": {{
    "github": {{"command": "npx", "args": ["-y", "@x/github"], "env": {{"GITHUB_TOKEN": "{CANARY}"}},}},
  }},
}}
"""


@pytest.fixture
def cursor(home: Path) -> Path:
    """Cursor's file, as a person keeps it."""
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(OTHERS)
    return path


def records(home: Path) -> list[Path]:
    return sorted((home / ".config/aggregator/installed").glob("*"))


def test_a_preview_writes_nothing(home: Path, config: Path, cursor: Path, install: Install) -> None:
    """E7: Without a terminal nothing is written before somebody says so."""
    before = tree(home)
    shown = install("cursor")
    assert '+    "aggregator": {' in shown
    assert "[redacted]" in shown
    assert "Nothing was written. Add --write" in shown
    assert CANARY not in shown
    assert tree(home) == before


@pytest.mark.parametrize(
    ("http", "address"),
    [
        ({}, "http://127.0.0.1:8642/"),
        ({"port": 9000, "public_url": "https://tools.example/"}, "https://tools.example/"),
        ({"enabled": False}, None),
        ({"port": 0}, None),
    ],
)
def test_frameworks_are_told_an_address_that_is_served(
    config: Path, install: Install, http: dict[str, object], address: str | None
) -> None:
    config.write_text(json.dumps({"mcpServers": {}, "http": http}))
    shown = install()
    assert ("Agent frameworks connect to" in shown) == (address is not None)
    assert address is None or f"Agent frameworks connect to {address}" in shown


def test_write_and_undo(home: Path, config: Path, cursor: Path, install: Install) -> None:
    """E7: The entry stands after the others, all else stays byte for byte, and the undo restores every byte."""
    before = tree(home)
    shown = install("cursor", "--write", "--agent", "shop")
    assert "Restart Cursor" in shown
    assert str(cursor.with_name("mcp.json.bak")) in shown
    text = cursor.read_text()
    start = text.index('    "aggregator"')
    assert text[:start] + text[text.index("  },\n}", start) :] == OTHERS
    words = [word for word in text[start:].split('"') if word.strip(" ,:[]{}\n")]
    assert words[words.index("stdio") :] == ["stdio", "--config", str(config), "--agent", "shop"]
    (record,) = records(home)
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert stat.S_IMODE(record.parent.stat().st_mode) == 0o700
    shown = install("cursor", "--undo", "--yes")
    assert "is restored" in shown
    assert CANARY not in shown
    assert tree(home) == before


def test_an_undo_is_shown_first(home: Path, config: Path, cursor: Path, install: Install) -> None:
    install("cursor", "--write")
    installed = tree(home)
    shown = install("cursor", "--undo")
    assert '-    "aggregator": {' in shown
    assert "Nothing was written" in shown
    assert tree(home) == installed


def test_a_file_that_was_not_there_is_made_and_removed(home: Path, config: Path, install: Install) -> None:
    before = tree(home)
    install("windsurf", "--write")
    made = home / ".codeium/windsurf/mcp_config.json"
    assert json_of(made)["mcpServers"]["aggregator"]["args"][0] == "stdio"
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    install("windsurf", "--undo", "--write")
    assert tree(home) == before


def test_a_second_install_has_nothing_to_write(home: Path, config: Path, cursor: Path, install: Install) -> None:
    install("cursor", "--write")
    installed = tree(home)
    assert "points here already" in install("cursor", "--write")
    assert tree(home) == installed


def test_installs_over_each_other_undo_in_reverse(home: Path, config: Path, cursor: Path, install: Install) -> None:
    states = [tree(home)]
    install("cursor", "--write")
    states.append(tree(home))
    install("cursor", "--write", "--agent", "shop")
    states.append(tree(home))
    install("cursor", "--write", "--name", "second", "--agent", "bot")
    while states:
        install("cursor", "--undo", "--write")
        assert tree(home) == states.pop()


def test_our_entry_without_arguments_points_elsewhere(home: Path, config: Path, refused: Callable[..., str]) -> None:
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {"aggregator": {"command": "aggregator"}}}')
    other = config.with_name("other.json")
    other.write_text(config.read_text())
    assert "--replace" in refused("cursor", "--config", str(other))


def test_an_entry_that_points_elsewhere(
    home: Path, config: Path, cursor: Path, install: Install, refused: Callable[..., str]
) -> None:
    """E7: Another entry of our name is replaced on purpose only, and undone."""
    cursor.write_text('{"mcpServers": {"aggregator": {"command": "other", "env": {"KEY": "secret-value"}}}}')
    before = tree(home)
    said = refused("cursor", "--write")
    assert "--replace" in said
    assert "--name" in said
    assert tree(home) == before
    shown = install("cursor", "--replace", "--write")
    assert "secret-value" not in shown
    assert json_of(cursor)["mcpServers"]["aggregator"]["args"][0] == "stdio"
    install("cursor", "--undo", "--write")
    assert tree(home) == before
    cursor.write_text('{"mcpServers": {"aggregator": {"command": "aggregator", "args": ["stdio", "-c", "/x.json"]}}}')
    assert "another configuration" in refused("cursor")


def test_a_file_that_was_changed_since(
    home: Path, config: Path, cursor: Path, install: Install, refused: Callable[..., str]
) -> None:
    """E7: What somebody changed is never thrown away; our entry alone can be taken out."""
    install("cursor", "--write")
    changed = cursor.read_text().replace('"dark"', '"light"')
    cursor.write_text(changed)
    said = refused("cursor", "--undo", "--write")
    assert "--only-entry" in said
    assert cursor.read_text() == changed
    install("cursor", "--undo", "--only-entry", "--write")
    assert cursor.read_text() == OTHERS.replace('"dark"', '"light"')
    assert not records(home)
    assert "nothing to undo" in refused("cursor", "--undo")


def test_only_the_entry_brings_back_what_it_replaced(home: Path, config: Path, cursor: Path, install: Install) -> None:
    cursor.write_text('{"mcpServers": {"aggregator": {"command": "other"}}}')
    install("cursor", "--replace", "--write")
    cursor.write_text(cursor.read_text().replace('{"mcp', '{"theme": 1, "mcp'))
    install("cursor", "--undo", "--only-entry", "--write")
    assert json_of(cursor) == {"theme": 1, "mcpServers": {"aggregator": {"command": "other"}}}


def test_a_later_install_has_to_be_undone_first(
    home: Path, config: Path, cursor: Path, install: Install, refused: Callable[..., str]
) -> None:
    install("cursor", "--write")
    install("cursor", "--write", "--name", "second", "--agent", "bot")
    assert "aggregator install cursor --undo" in refused("cursor", "--undo", "--name", "aggregator")


def test_json_for_programs(home: Path, config: Path, cursor: Path, install: Install) -> None:
    found = json.loads(install("cursor", "--json"))
    assert (found["action"], found["host"], found["file"]) == ("preview", "cursor", str(cursor))
    assert CANARY not in json.dumps(found)
    assert json.loads(install("cursor", "--json", "--write"))["action"] == "installed"
    assert json.loads(install("cursor", "--json"))["action"] == "unchanged"
    listed = {row["host"]: row for row in json.loads(install("--json"))}
    assert listed["cursor"]["points_here"] == [str(cursor)]
    assert listed["zed"] | {"title": ""} == {
        "host": "zed", "title": "", "here": False, "files": [], "points_here": [],
    }  # fmt: skip
    assert json.loads(install("cursor", "--undo", "--json", "--write"))["action"] == "undone"


def test_the_list_of_hosts(home: Path, config: Path, cursor: Path, install: Install) -> None:
    shown = {line.split()[0]: line for line in install().splitlines()}
    assert "yes" in shown["cursor"]
    assert "yes" not in shown["zed"]
    assert "http://127.0.0.1:8642/mcp?names=compatible" in shown["Agent"]
    install("cursor", "--write")
    shown = {line.split()[0]: line for line in install().splitlines()}
    assert str(cursor) in shown["cursor"]


def test_a_project_has_a_file_of_its_own(home: Path, config: Path, install: Install) -> None:
    before = tree(home)
    install("cursor", "--scope", "project", "--write")
    assert (home / "project/.cursor/mcp.json").exists()
    install("cursor", "--undo", "--write")
    assert tree(home) == before


def test_over_http_with_a_key_of_its_own(home: Path, config: Path, install: Install) -> None:
    """D4: The key is made for the agent, stands in the file, and is printed nowhere."""
    shown = install("lm-studio", "--http", "--agent", "shop", "--new-key", "--write")
    entry = json_of(home / ".lmstudio/mcp.json")["mcpServers"]["aggregator"]
    assert entry["url"] == "http://127.0.0.1:8642/mcp"
    scheme, key = entry["headers"]["Authorization"].split()
    assert scheme == "Bearer"
    assert key not in shown
    assert "[redacted]" in shown
    key_id = key.split("_")[1]
    shown = install("lm-studio", "--undo", "--write")
    assert f"aggregator keys revoke {key_id}" in shown
    assert key not in shown


def test_a_key_of_an_install_that_fails_is_ended(
    home: Path, config: Path, cursor: Path, refused: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """D4: No key counts that stands nowhere."""
    (home / ".config/aggregator/installed").write_text("in the way of the records")
    assert "Nothing was installed" in refused("lm-studio", "--http", "--agent", "shop", "--new-key", "--write")
    app(["keys", "list", "--json"], standalone_mode=False)
    (key,) = json.loads(capsys.readouterr().out)
    assert (key["agent_id"], key["state"]) == ("shop", "revoked")


def test_a_person_at_a_terminal_is_asked(
    home: Path, config: Path, cursor: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", terminal("n\n"))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    shown = install("cursor")
    assert "Write this? [y/N]" in shown
    assert "Nothing was written." in shown
    assert cursor.read_text() == OTHERS
    monkeypatch.setattr("sys.stdin", terminal("y\n"))
    install("cursor")
    assert '"aggregator"' in cursor.read_text()


def terminal(typed: str) -> StringIO:
    """A stdin at which a person types."""
    made = StringIO(typed)
    made.isatty = lambda: True  # type: ignore[method-assign]
    return made


def test_claude_code_has_a_place_for_a_project_alone(home: Path, config: Path, install: Install) -> None:
    settings = home / ".claude.json"
    settings.write_text('{"numStartups": 3, "projects": {"/other": {"mcpServers": {}}}}')
    before = tree(home)
    install("claude-code", "--scope", "local", "--write")
    root = json_of(settings)
    assert root["projects"][str(home / "project")]["mcpServers"]["aggregator"]["type"] == "stdio"
    assert root["projects"]["/other"] == {"mcpServers": {}}
    install("claude-code", "--undo", "--write")
    assert tree(home) == before


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("cursor", "${env:AGGREGATOR_KEY}"),
        ("gemini-cli", "Bearer ${AGGREGATOR_KEY}"),
        ("codex", 'bearer_token_env_var = "AGGREGATOR_KEY"'),
        ("vscode", "${env:AGGREGATOR_KEY}"),
    ],
)
def test_over_http_with_a_reference(home: Path, config: Path, install: Install, host: str, expected: str) -> None:
    assert expected in install(host, "--http", "--agent", "shop")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["claude-desktop", "--http"], "leave --http out"),
        (["lm-studio", "--http", "--agent", "shop"], "--new-key"),
        (["cursor", "--new-key"], "--http and --agent"),
        (["cursor", "--only-entry"], "--undo"),
        (["cursor", "--undo", "--take-over"], "nothing else"),
        (["cursor", "--agent", "no spaces"], "letters, digits"),
        (["cursor", "--scope", "planet"], "user, project, local"),
        (["windsurf", "--scope", "project"], "--scope user"),
        (["cursor", "--file", "/x.json"], "does not read"),
        (["cursor", "--name", "a\nb"], "letters, digits"),
        (["codex", "--name", "a.b"], "letters, digits"),
        (["cursorr"], "Name one of"),
        (["--undo"], "Name a host"),
        (["cursor", "--undo"], "nothing to undo"),
        (["cursor", "--config", "/nowhere.json"], "no file /nowhere.json"),
    ],
)
def test_what_cannot_be(home: Path, config: Path, refused: Callable[..., str], args: list[str], said: str) -> None:
    before = tree(home)
    assert said in refused(*args)
    assert tree(home) == before


def test_a_host_without_a_file(home: Path, config: Path, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """E7: One line to paste where a program keeps its servers elsewhere."""
    host = dataclasses.replace(CURSOR, files=lambda machine: ())
    monkeypatch.setattr("aggregator.cli.hosts.install.command.host_named", lambda name: host)
    before = tree(home)
    # A warning may stand below it, as in a folder for temporary files.
    line = next(one for one in install("cursor", "--agent", "shop").splitlines() if "stdio --config" in one)
    command, *args = shlex.split(line)
    assert os.path.exists(command)
    assert args[-5:] == ["stdio", "--config", str(config), "--agent", "shop"]
    assert tree(home) == before


def test_without_a_configuration(home: Path, refused: Callable[..., str]) -> None:
    assert "There is no configuration" in refused("cursor", "--write")
    assert tree(home) == {"project": "folder"}


def test_a_host_that_writes_its_file_all_the_time(
    home: Path, config: Path, cursor: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E7: What the host wrote meanwhile stays, as long as its servers are those that were shown."""
    real, left = replacing.replace_file, [3]

    def busy(path: Path, content: bytes, was: bytes | None) -> Path | None:
        if path == cursor and left[0]:
            left[0] -= 1
            cursor.write_text(OTHERS.replace("dark", f"dark{left[0]}"))
        return real(path, content, was)

    monkeypatch.setattr("aggregator.cli.hosts.install.writing.replace_file", busy)
    install("cursor", "--write")
    assert left == [0]
    assert '"aggregator"' in cursor.read_text()
    assert '"dark0"' in cursor.read_text()
    assert len(records(home)) == 1
    install("cursor", "--undo", "--write")
    assert cursor.read_text() == OTHERS.replace("dark", "dark0")


def test_a_host_that_changes_its_servers_meanwhile(
    home: Path, config: Path, cursor: Path, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, other = replacing.replace_file, OTHERS.replace('"github"', '"gitlab"')

    def busy(path: Path, content: bytes, was: bytes | None) -> Path | None:
        if path == cursor:
            cursor.write_text(other)
        return real(path, content, was)

    monkeypatch.setattr("aggregator.cli.hosts.install.writing.replace_file", busy)
    assert "Run the command again" in refused("cursor", "--write")
    assert cursor.read_text() == other
    assert not records(home)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b'\xef\xbb\xbf{\r\n\t"mcpServers": {}\r\n}\r\n',
        '{"mcpServers": {"ä": {"command": "ü"}}}'.encode("utf-16"),
        b'{"mcpServers": null}',
        b'// only a comment\n{"mcpServers": {"a": {"command": "b"}, }, /* end */ }',
        b'{"mcpServers":{"a":{"command":"b"}}}',
    ],
    ids=["empty", "no servers", "BOM and CRLF", "UTF-16", "null", "comments", "one line"],
)
def test_files_as_people_have_them(home: Path, config: Path, cursor: Path, install: Install, content: bytes) -> None:
    cursor.write_bytes(content)
    before = tree(home)
    install("cursor", "--write")
    assert "points here already" in install("cursor")
    install("cursor", "--undo", "--write")
    assert tree(home) == before


@pytest.mark.parametrize(
    "content",
    [b'{"mcpServers": {', b'{"mcpServers": []}', b"[]", b"\xff\xfe\xff", b'{"mcpServers": {"a": ' + CANARY.encode()],
)
def test_files_that_cannot_be_edited(
    home: Path, config: Path, cursor: Path, refused: Callable[..., str], content: bytes
) -> None:
    cursor.write_bytes(content)
    before = tree(home)
    said = refused("cursor", "--write")
    assert str(cursor) in said
    assert CANARY not in said
    assert tree(home) == before


def test_a_linked_file(home: Path, config: Path, cursor: Path, install: Install) -> None:
    """People keep such files in a repository, and link them."""
    dotfiles = home / "dotfiles"
    dotfiles.mkdir()
    cursor.rename(dotfiles / "mcp.json")
    cursor.symlink_to(dotfiles / "mcp.json")
    before = tree(home)
    install("cursor", "--write")
    assert cursor.is_symlink()
    assert '"aggregator"' in (dotfiles / "mcp.json").read_text()
    install("cursor", "--undo", "--write")
    assert tree(home) == before


def test_a_link_to_a_file_that_is_not_there_yet(home: Path, config: Path, cursor: Path, install: Install) -> None:
    cursor.unlink()
    cursor.symlink_to(home / "elsewhere.json")
    before = tree(home)
    install("cursor", "--write")
    assert json_of(home / "elsewhere.json")["mcpServers"]
    install("cursor", "--undo", "--write")
    assert tree(home) == before


def test_a_backup_of_the_user_comes_back(home: Path, config: Path, cursor: Path, install: Install) -> None:
    cursor.with_name("mcp.json.bak").write_text("mine")
    before = tree(home)
    install("cursor", "--write")
    install("cursor", "--undo", "--write")
    assert tree(home) == before


@pytest.mark.parametrize("protected", ["host", "ours"])
def test_a_read_only_file(home: Path, config: Path, cursor: Path, refused: Callable[..., str], protected: str) -> None:
    """A file that a person protects is not replaced behind their back."""
    (cursor if protected == "host" else config).chmod(0o444)
    before = tree(home)
    assert "read-only" in refused("cursor", "--write", "--take-over")
    assert tree(home) == before


@pytest.mark.parametrize("moved", [False, True], ids=["ours", "moved"])
def test_only_what_an_entry_takes_from_the_shell_is_named(
    home: Path, config: Path, cursor: Path, install: Install, monkeypatch: pytest.MonkeyPatch, moved: bool
) -> None:
    """A variable that the entry's own `env` sets is the entry's; one of another entry that takes it is named."""
    monkeypatch.setenv("KEY", "of-the-shell")
    own = {"command": "npx", "args": ["--key", "${KEY}"], "env": {"KEY": "own"}}
    (cursor if moved else config).write_text(json.dumps({"mcpServers": {"mine": own}}))
    options = ["--take-over"] if moved else []
    assert "KEY from the variables of this shell" not in install("cursor", *options)
    other = {"command": "npx", "args": ["--token", "${env:KEY}" if moved else "${KEY}"]}
    (cursor if moved else config).write_text(json.dumps({"mcpServers": {"mine": own, "other": other}}))
    assert "takes KEY from the variables of this shell" in install("cursor", *options)


@pytest.mark.parametrize(
    ("host", "said"), [("witsy", "splits arguments at spaces"), ("trae", "splits a command at spaces")]
)
def test_a_host_that_splits_at_spaces(
    host: str,
    said: str,
    home: Path,
    config: Path,
    install: Install,
    refused: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An entry that the host would start as other words is not written."""
    install(host, "--write", "--name", "fine")
    spaced = config.with_name("with space.json")
    spaced.write_text(config.read_text())
    own = OwnCommand(f"{home}/a program/aggregator")
    monkeypatch.setattr("aggregator.cli.hosts.install.build.own_command", lambda program: own)
    before = tree(home)
    assert said in refused(host, "--config", str(spaced), "--write")
    assert tree(home) == before


def test_a_file_that_stays_as_it_is_is_not_shown(home: Path, config: Path, cursor: Path, install: Install) -> None:
    """E7: Our configuration has the entry already: only the host's file changes."""
    for file in (config, cursor):
        file.write_text('{"mcpServers": {"box": {"command": "box-server", "args": ["x"]}}}')
    shown = install("cursor", "--take-over")
    assert "our configuration has it as box" in shown
    assert [line for line in shown.splitlines() if line.startswith("--- ")] == [f"--- {cursor}"]
