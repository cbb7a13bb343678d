"""The mark beside a database: only an ordinary file of ours is one."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from aggregator.storage.engine.change_mark import ChangeMark
from aggregator.storage.errors import StorageError
from tests import ON_WINDOWS


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _link(path: Path) -> None:
    path.with_name("other").write_bytes(b"x" * 16)
    path.symlink_to(path.with_name("other"))


def _long(path: Path) -> None:
    path.write_bytes(b"x" * 17)


@pytest.mark.parametrize("made", [_pipe, Path.mkdir, *(() if ON_WINDOWS else (_link,)), _long])
def test_what_is_no_mark_is_neither_read_nor_changed(tmp_path: Path, made: Callable[[Path], None]) -> None:
    """D7: and what was known before does not count any more."""
    database = tmp_path / "a.db"
    database.touch()
    mark, path = ChangeMark(database, "flow"), tmp_path / "a.db.flow"
    mark.look()
    assert mark.read() is not None
    path.unlink()
    made(path)
    mark.look()
    assert mark.read() is None
    with pytest.raises(StorageError, match=r"a\.db\.flow cannot be written"):
        mark.change()
    if made is _long:
        assert path.read_bytes() == b"x" * 17
    if made is _link:
        assert path.with_name("other").read_bytes() == b"x" * 16


@pytest.mark.parametrize("there", [None, b"", b"x" * 7, b"x" * 16])
def test_every_process_sees_a_change(tmp_path: Path, there: bytes | None) -> None:
    """Also in a file that another process has not finished."""
    database = tmp_path / "a.db"
    database.touch()
    if there is not None:
        (tmp_path / "a.db.flow").write_bytes(there)
    one, other = ChangeMark(database, "flow"), ChangeMark(database, "flow")
    for mark in (one, other):
        mark.look()
    before = one.read()
    assert before is not None
    assert other.read() == before
    other.change()
    assert one.read() == other.read() != before
