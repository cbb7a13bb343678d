"""What an undo restores, removes and leaves, one condition at a time: on files of this folder, without a command."""

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.cli.hosts.install import writing
from aggregator.cli.hosts.install.records import FileChange, InstallRecord, InstallRecords, digest
from aggregator.cli.hosts.install.undo import check_unchanged, newest, removals, restore_all, write_removals
from aggregator.cli.hosts.install.writing import restore, write_changes
from aggregator.config.errors import ConfigError
from aggregator.config.files.find import trust_list
from aggregator.domain.errors import OperatorError
from aggregator.editing.errors import EditError
from aggregator.editing.replace import backup_path, replace_file

BEFORE: Final = b'{"mcpServers": {}}'
AFTER: Final = b'{"mcpServers": {"aggregator": {"command": "aggregator"}}}'


def change(path: Path, before: bytes | None = BEFORE, **more: Any) -> FileChange:
    return FileChange(path, before, digest(AFTER), "json", ("mcpServers",), **more)


def record(*changes: FileChange, host: str = "cursor", entry: str = "aggregator") -> InstallRecord:
    return InstallRecord(host, host.capitalize(), entry, 1.0, changes)


@pytest.fixture
def records(home: Path) -> InstallRecords:
    return InstallRecords(home / "installed")


def written(folder: Path, name: str, content: bytes = AFTER) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_the_last_install_of_the_host_the_entry_and_the_file_is_undone(home: Path, records: InstallRecords) -> None:
    one, two, other = (written(home, name) for name in ("one.json", "two.json", "other.json"))
    first = records.add(record(change(one)))
    mine = records.add(record(change(one), entry="mine"))
    last = records.add(record(change(two)))
    records.add(record(change(other), host="claude-code"))
    for path, name, expected in (
        (None, None, last),
        (None, "mine", mine),
        (None, "aggregator", last),
        (one, None, mine),
        (one, "aggregator", first),
        (two, "aggregator", last),
    ):
        assert newest(records, "cursor", "Cursor", path, name) == expected
    for host, path, name in (("cursor", other, None), ("cursor", two, "mine"), ("goose", None, None)):
        with pytest.raises(OperatorError, match="nothing to undo"):
            newest(records, host, "X", path, name)
    # Records whose files are as before are of no install any more; what is left of them goes, also beside the files.
    two.write_bytes(BEFORE)
    backup_path(two).write_bytes(BEFORE)
    assert newest(records, "cursor", "Cursor", None, "aggregator") == first
    assert last not in records.all()
    assert not backup_path(two).exists()


def test_a_later_install_is_named_and_an_earlier_one_is_not(home: Path, records: InstallRecords) -> None:
    path = written(home, "f.json")
    first = records.add(record(change(path)))
    later = records.add(record(change(path), host="goose"))
    check_unchanged(first, records)
    path.write_bytes(b"{}")
    with pytest.raises(OperatorError, match="aggregator install goose --undo"):
        check_unchanged(first, records)
    with pytest.raises(OperatorError, match="goose --undo --only-entry"):
        check_unchanged(later, records)


@pytest.mark.parametrize("before", [None, BEFORE])
@pytest.mark.parametrize("now", [AFTER, BEFORE, b"{}", None])
def test_only_a_file_as_the_install_left_it_is_restored(home: Path, before: bytes | None, now: bytes | None) -> None:
    path = home / "made" / "f.json"
    path.parent.mkdir()
    if now is not None:
        path.write_bytes(now)
    restore([change(path, before, folders=(path.parent,))])
    content = path.read_bytes() if path.exists() else None
    assert content == (before if now == AFTER else now)
    # A folder that the install made goes with its file.
    assert path.parent.exists() == (before is not None or now != AFTER)


@pytest.mark.parametrize(
    ("kept", "now", "then"),
    [
        (b"mine", BEFORE, b"mine"),
        (b"mine", AFTER, b"mine"),
        (b"mine", b"other", b"other"),
        (b"mine", None, None),
        (None, BEFORE, None),
        (None, AFTER, None),
        (None, b"other", b"other"),
        (BEFORE, BEFORE, BEFORE),
    ],
)
def test_the_backup_of_a_user_comes_back_unless_it_was_changed_since(
    home: Path, kept: bytes | None, now: bytes | None, then: bytes | None
) -> None:
    path = written(home, "f.json", BEFORE)
    if now is not None:
        backup_path(path).write_bytes(now)
    restore([change(path, backup=kept)])
    assert (backup_path(path).read_bytes() if backup_path(path).exists() else None) == then


@pytest.mark.parametrize("cut", ["before", "after"])
def test_an_install_that_fails_at_its_second_file_leaves_nothing(
    home: Path, records: InstallRecords, monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    """Whether the file that fails was written or not."""
    ours, theirs = written(home, "ours.json", BEFORE), home / "made" / "theirs.json"
    changes = (change(ours), change(theirs, None, folders=(theirs.parent,)))

    def fails(path: Path, content: bytes, was: bytes | None) -> Path | None:
        path.parent.mkdir(exist_ok=True)
        done = replace_file(path, content, was) if path == ours or cut == "after" else None
        if path == theirs:
            raise EditError("no")
        return done

    monkeypatch.setattr(writing, "replace_file", fails)
    with pytest.raises(OperatorError, match="no"):
        write_changes(records, record(*changes), (AFTER, AFTER))
    assert ours.read_bytes() == BEFORE
    assert not theirs.parent.exists()
    assert records.all() == ()


def test_a_file_that_is_changed_at_this_moment_is_not_removed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(home, "f.json", b"changed just now")
    monkeypatch.setattr(writing, "content_of", lambda _: AFTER)
    with pytest.raises(EditError, match="in the meantime"):
        restore([change(path, None)])
    assert path.read_bytes() == b"changed just now"


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_a_trusted_file_stays_so_and_no_other_becomes_it(
    home: Path, records: InstallRecords, trusted: bool, whole: bool
) -> None:
    path = written(home, "f.json")
    if trusted:
        trust_list(os.environ).add(path, AFTER)
    made = records.add(record(change(path, entries={"aggregator": {"command": "aggregator"}})))
    if whole:
        restore_all(made, records)
    else:
        write_removals(removals(made), made, records)
    assert json.loads(path.read_bytes()) == {"mcpServers": {}}
    if trusted:
        trust_list(os.environ).check(path)
    else:
        with pytest.raises(ConfigError):
            trust_list(os.environ).check(path)


OURS, OLD, EDITED = {"command": "ours"}, {"command": "old"}, {"command": "edited"}


@pytest.mark.parametrize(
    ("before", "given", "now", "then", "remark"),
    [
        # Ours is taken out, and what it replaced comes back.
        (None, OURS, OURS, None, None),
        (OLD, OURS, OURS, OLD, None),
        (OLD, OURS, None, OLD, None),
        (None, OURS, None, None, None),
        # What was moved away comes back, unless the user has it there again.
        (OLD, None, None, OLD, None),
        (OLD, None, EDITED, EDITED, None),
        # Edited since: the host's file must not start us; in ours it is the user's.
        (None, OURS, EDITED, None, "taken out"),
        (OLD, OURS, EDITED, OLD, "taken out"),
    ],
)
@pytest.mark.parametrize("is_host", [True, False])
def test_what_becomes_of_one_entry(
    home: Path, before: Any, given: Any, now: Any, then: Any, remark: str | None, is_host: bool
) -> None:
    def content(entry: Any) -> bytes:
        return json.dumps({"mcpServers": {"keep": OLD} | ({} if entry is None else {"one": entry})}).encode()

    path = written(home, "f.json", content(now))
    (edit,) = removals(record(change(path, content(before), entries={"one": given}, is_host=is_host)))
    if remark is not None and not is_host:
        then, remark = now, "stays there"
    assert json.loads(edit.edited.document.text) == json.loads(content(then))
    assert len(edit.remarks) == (remark is not None)
    assert all(str(remark) in one for one in edit.remarks)


def test_a_folder_that_was_made_goes_with_the_last_file_in_it(home: Path, records: InstallRecords) -> None:
    """The backup beside a file goes after the file."""
    path = home / "made" / "f.json"
    path.parent.mkdir()
    path.write_bytes(AFTER)
    backup_path(path).write_bytes(AFTER)
    restore_all(records.add(record(change(path, None, folders=(path.parent,)))), records)
    assert not path.parent.exists()
