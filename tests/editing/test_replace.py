"""Files are replaced at once or not at all, and only if they hold what was read."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from aggregator.editing.edited_file import open_file
from aggregator.editing.errors import EditError
from aggregator.editing.replace import LARGEST, one_writer, read_file, replace_file
from tests import ON_WINDOWS


def test_a_file_is_replaced_with_its_mode_and_a_backup(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b"old")
    file.chmod(0o640)
    backup = replace_file(file, b"new", b"old")
    assert backup == tmp_path / "a.json.bak"
    assert (file.read_bytes(), backup.read_bytes()) == (b"new", b"old")
    assert ON_WINDOWS or {stat.S_IMODE(path.stat().st_mode) for path in (file, backup)} == {0o640}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.json.bak"]


def test_a_missing_file_is_opened_only_if_it_may_be_missing(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    with pytest.raises(EditError, match="There is no file"):
        open_file(file, "json")
    assert not open_file(file, "json", missing=True).changed


def test_a_new_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "er" / "a.json"
    assert replace_file(file, b"new", None) is None
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(EditError, match="was made in the meantime"):
        replace_file(file, b"other", None)
    assert file.read_bytes() == b"new"


def test_a_file_that_was_changed_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b"by another")
    with pytest.raises(EditError, match="was changed in the meantime"):
        replace_file(file, b"new", b"old")
    assert file.read_bytes() == b"by another"
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles" / "a.json", tmp_path / "a.json"
    real.parent.mkdir()
    real.write_bytes(b"old")
    link.symlink_to(real)
    assert replace_file(link, b"new", b"old") == tmp_path / "a.json.bak"
    assert link.is_symlink()
    assert real.read_bytes() == b"new"


def test_what_cannot_be_written_is_said_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(EditError, match=r"a\.json cannot be written: No space left on device"):
        replace_file(file, b"new", b"old")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_what_is_no_file_of_settings_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(EditError, match="is not a file"):
        read_file(tmp_path)
    with pytest.raises(EditError, match="There is no file"):
        read_file(tmp_path / "missing")
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(EditError, match="larger than 16 MiB"):
        read_file(large)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(EditError, match="is not a file"):
            read_file(tmp_path / "pipe")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_file_keeps_its_encoding(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes('{"é": 1}'.encode(encoding))
    file = open_file(path, "json")
    assert not file.changed
    file.document.put(("ü",), 2)
    file.write()
    assert path.read_bytes() == '{"é": 1, "ü": 2}'.encode(encoding)


def test_a_file_in_no_known_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'{"\xff": 1}')
    with pytest.raises(EditError, match="is not UTF-8 text"):
        open_file(path, "json")


def test_no_edit_of_writers_at_the_same_time_is_lost(tmp_path: Path) -> None:
    """Every edit that was said to be written is in the file: compare and replace are one step for all of ours."""
    file = tmp_path / "a.txt"
    file.write_bytes(b"")

    def edits(writer: str) -> list[str]:
        done: list[str] = []
        for number in range(25):
            was = read_file(file)
            with suppress(EditError):
                replace_file(file, was + f"{writer}{number} ".encode(), was)
                done.append(f"{writer}{number}")
        return done

    with ThreadPoolExecutor(3) as pool:
        said = [edit for done in pool.map(edits, "abc") for edit in done]
    assert sorted(file.read_text().split()) == sorted(said)
    assert len(said) >= 25


def test_a_folder_that_is_held_is_waited_for_so_long_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"old")
    monkeypatch.setattr("aggregator.editing.replace.PATIENCE", 0.0)
    with one_writer(tmp_path), pytest.raises(EditError, match=r"Another command has been writing in .* End it"):
        replace_file(file, b"new", b"old")
    assert file.read_bytes() == b"old"
    replace_file(file, b"new", b"old")
    assert file.read_bytes() == b"new"
