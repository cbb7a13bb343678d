"""`--take-over`: the servers of a host are in one of the two files at every moment, and come back."""

import errno
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from aggregator.cli.commands import app
from aggregator.config.files.find import trust_list
from aggregator.domain.errors import OperatorError
from tests.install.conftest import Install, json_of, tree

SECRET = "ghp_k4n4ry0123456789abcdefghijklmnopqrstu"
THEIRS = {
    "github": {"command": "npx", "args": ["-y", "@x/github"], "env": {"GITHUB_TOKEN": SECRET}},
    "web": {"url": "https://example.com/mcp", "headers": {"X-Other": "canary-of-web"}},
}
TAKE_OVER = ("cursor", "--take-over", "--write")


class Crash(BaseException):
    """The end of the process at one system call."""


@pytest.fixture
def cursor(home: Path) -> Path:
    """Cursor's file with two servers and a comment."""
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"mcpServers": THEIRS}, indent=2).replace("{", "{ // mine", 1))
    return path


def names(path: Path) -> set[str]:
    """The servers that a file names, whether or not it has comments."""
    text = path.read_text() if path.exists() else ""
    return {name for name in (*THEIRS, "time") if f'"{name}": {{' in text}


def test_servers_move_and_come_back(home: Path, config: Path, cursor: Path, install: Install) -> None:
    """E7: Comments in both files stay; no secret is printed; the undo restores both byte for byte."""
    before = tree(home)
    shown = install("cursor", "--take-over")
    assert tree(home) == before
    shown += install(*TAKE_OVER)
    assert names(config) == {"time", "github", "web"}
    assert "// mine" in config.read_text()
    assert list(json.loads(cursor.read_text().replace("// mine", ""))["mcpServers"]) == ["aggregator"]
    shown += install("cursor", "--undo", "--write")
    assert tree(home) == before
    assert "[redacted]" in shown
    assert SECRET not in shown
    assert "canary-of-web" not in shown


def test_a_configuration_is_made_for_them(home: Path, cursor: Path, install: Install) -> None:
    before = tree(home)
    install(*TAKE_OVER)
    assert names(home / ".config/aggregator/aggregator.json") == {"github", "web"}
    install("cursor", "--undo", "--write")
    assert tree(home) == before


def test_what_is_there_already_and_what_cannot_move(home: Path, config: Path, cursor: Path, install: Install) -> None:
    """E7: The rules are those of import: same server, other values, another server of that name, no server at all."""
    config.write_text(
        json.dumps(
            {
                "mcpServers": {
                    "hub": THEIRS["github"],
                    "web": {"url": "https://example.com/mcp", "headers": {"X-Other": "another"}},
                    "files": {"command": "files-of-ours"},
                }
            }
        )
    )
    theirs: dict[str, Any] = {**THEIRS, "files": {"command": "files-of-theirs"}, "broken": {"note": "nothing"}}
    theirs["gateway"] = {"command": "aggregator", "args": ["stdio", "--config", str(config)]}
    cursor.write_text(json.dumps({"mcpServers": theirs}))
    before = tree(home)
    shown = install(*TAKE_OVER)
    assert "github: goes: our configuration has it as hub" in shown
    assert "web: stays" in shown
    assert "X-Other" in shown
    assert re.search(r"broken: stays: .*(command|url)", shown)
    assert "web: stays: our configuration has it as web" in shown
    assert "points here too" in shown
    ours = json_of(config)["mcpServers"]
    assert ours["files"] == {"command": "files-of-ours"}
    assert ours["files-2"] == {"command": "files-of-theirs"}
    assert set(json_of(cursor)["mcpServers"]) == {"web", "broken", "gateway", "aggregator"}
    install("cursor", "--undo", "--write")
    assert tree(home) == before


def test_a_server_that_is_called_as_our_entry(home: Path, config: Path, cursor: Path, install: Install) -> None:
    cursor.write_text('{"mcpServers": {"aggregator": {"command": "theirs"}}}')
    before = tree(home)
    install(*TAKE_OVER)
    assert json_of(cursor)["mcpServers"]["aggregator"]["args"][0] == "stdio"
    assert '"command": "theirs"' in config.read_text()
    install("cursor", "--undo", "--write")
    assert tree(home) == before


def test_secrets_that_are_now_in_our_file(home: Path, config: Path, cursor: Path, install: Install) -> None:
    config.chmod(0o644)
    shown = install(*TAKE_OVER)
    assert "in the clear" in shown
    assert stat.S_IMODE(config.stat().st_mode) == 0o600


def test_a_trusted_configuration_stays_trusted(home: Path, cursor: Path, install: Install) -> None:
    here = home / "project" / "aggregator.json"
    here.write_text('{"mcpServers": {}}')
    trusted = trust_list(os.environ)
    trusted.add(here, here.read_bytes())
    install(*TAKE_OVER)
    trusted.check(here)
    assert names(here) == set(THEIRS)
    install("cursor", "--undo", "--write")
    trusted.check(here)
    assert here.read_text() == '{"mcpServers": {}}'


def test_only_the_entry_after_edits_of_both_files(home: Path, config: Path, cursor: Path, install: Install) -> None:
    """E7: Servers return to the host; one that was edited in our file stays there too."""
    install(*TAKE_OVER)
    config.write_text(config.read_text().replace("https://example.com/mcp", "https://example.com/other"))
    cursor.write_text(cursor.read_text().replace("{ // mine", '{ // mine\n  "theme": "dark",'))
    shown = install("cursor", "--undo", "--only-entry", "--write")
    assert "web" in shown
    assert SECRET not in shown
    assert json.loads(cursor.read_text().replace("// mine", "")) == {"theme": "dark", "mcpServers": THEIRS}
    assert names(config) == {"time", "web"}


def test_only_the_entry_where_the_host_lost_its_file(home: Path, config: Path, cursor: Path, install: Install) -> None:
    install(*TAKE_OVER)
    cursor.unlink()
    install("cursor", "--undo", "--only-entry", "--write")
    assert json_of(cursor) == {"mcpServers": THEIRS}
    assert names(config) == {"time"}


@contextmanager
def fault(monkeypatch: pytest.MonkeyPatch, at: int, error: BaseException) -> Iterator[list[int]]:
    """Fail at one of the system calls by which files are written; after a crash, at every later one."""
    calls = [0]
    with monkeypatch.context() as patch:
        for name in ("open", "replace", "link", "fsync", "unlink", "chmod"):
            real = getattr(os, name)

            def failing(*args: Any, _real: Callable[..., Any] = real, **kwargs: Any) -> Any:
                # Files that are opened to be read are no concern of this.
                if _real.__name__ == "open" and not (len(args) > 1 and args[1] & os.O_CREAT):
                    return _real(*args, **kwargs)
                calls[0] += 1
                if calls[0] == at or (calls[0] > at and isinstance(error, Crash)):
                    raise error
                return _real(*args, **kwargs)

            patch.setattr(os, name, failing)
        yield calls


FULL = OSError(errno.ENOSPC, "No space left on device")


NOTHING = (
    "No install into Cursor is on record here, so there is nothing to undo. `aggregator install` lists the hosts whose "
    "files point here; take an entry that was written by hand out by hand."
)


def ended(run: Callable[[], object]) -> str:
    """Run, and return the error that it ends with."""
    try:
        run()
    except (OperatorError, Crash) as error:
        return str(error)
    return ""


def points(run: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> int:
    """Count the system calls by which files are written."""
    with fault(monkeypatch, 0, FULL) as calls:
        run()
    return calls[0]


def in_place(home: Path) -> dict[str, bytes | str]:
    """The files but for backups, and what a crash leaves behind: temporary files and the record."""
    return {
        name: content
        for name, content in tree(home).items()
        if not name.endswith(".bak") and "/installed" not in name and not Path(name).name.startswith(".mcp")
        if not Path(name).name.startswith(".aggregator.json")
    }


@pytest.mark.parametrize("made", [False, True], ids=["there", "new"])
@pytest.mark.parametrize("error", [FULL, Crash()], ids=["full disk", "crash"])
def test_a_fault_at_every_write(
    home: Path,
    config: Path,
    cursor: Path,
    install: Install,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    made: bool,
) -> None:
    """E7: After a fault at any write of a take-over no server is lost, and `--undo` restores both files."""
    if made:
        config.unlink()
        config = home / ".config/aggregator/aggregator.json"
    before = in_place(home)
    backup = cursor.with_name("mcp.json.bak")
    backup.write_text("of the person")
    whole = tree(home)
    everything_before = names(cursor) | names(config)
    total = points(lambda: install(*TAKE_OVER), monkeypatch)
    install("cursor", "--undo", "--write")
    assert in_place(home) == before
    assert total > 10
    for at in range(1, total + 1):
        with fault(monkeypatch, at, error):
            assert SECRET not in ended(lambda: app(["install", *TAKE_OVER], standalone_mode=False))
        assert names(cursor) | names(config) >= everything_before, at
        assert ended(lambda: install("cursor", "--undo", "--write")) in ("", NOTHING)
        assert in_place(home) == before, at
        assert backup.read_text() == "of the person", at
    # What the crashes left beside the files, and of their records, goes with the next change.
    install(*TAKE_OVER)
    install("cursor", "--undo", "--write")
    assert tree(home) == whole


@pytest.mark.parametrize("error", [FULL, Crash()], ids=["full disk", "crash"])
def test_a_fault_at_every_write_of_the_undo(
    home: Path, config: Path, cursor: Path, install: Install, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """E7: An undo that was cut off is finished by the next one."""
    before = in_place(home)
    install(*TAKE_OVER)
    total = points(lambda: install("cursor", "--undo", "--write"), monkeypatch)
    for at in range(1, total + 1):
        install(*TAKE_OVER)
        with fault(monkeypatch, at, error):
            assert SECRET not in ended(lambda: app(["install", "cursor", "--undo", "--write"], standalone_mode=False))
        assert names(cursor) | names(config) == {"time", "github", "web"}
        assert ended(lambda: install("cursor", "--undo", "--write")) in ("", NOTHING)
        assert in_place(home) == before, at
