"""Files as Windows has them, acted out: no move while another process reads, long paths, either case."""

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.cli.store import backup
from aggregator.domain import patient_files
from aggregator.domain.patient_files import PATIENCE, long_path, move_over, patiently, same_path
from aggregator.storage.database import open_database
from aggregator.storage.engine.files import put_in_place, set_aside
from tests import ON_WINDOWS


class Clock:
    """The time, which passes by pauses alone."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(patient_files, "time", clock)
    return clock


def refusing(times: int, kind: type[OSError] = PermissionError) -> tuple[Callable[[], str], list[int]]:
    """Return an act that is refused so often, and the list of its tries."""
    tries: list[int] = []

    def act() -> str:
        tries.append(len(tries))
        if len(tries) <= times:
            raise kind(errno.EACCES if kind is PermissionError else errno.ENOSPC, "refused")
        return "done"

    return act, tries


@pytest.mark.parametrize("times", [0, 1, 5])
def test_it_is_tried_again_while_another_process_has_the_file(times: int, clock: Clock) -> None:
    act, tries = refusing(times)
    assert patiently(act, windows=True) == "done"
    assert len(tries) == times + 1
    assert len(clock.pauses) == times


def test_it_ends_within_its_bound(clock: Clock) -> None:
    act, tries = refusing(10**6)
    with pytest.raises(PermissionError):
        patiently(act, windows=True)
    assert PATIENCE - 0.5 < clock.now <= PATIENCE
    assert 10 < len(tries) < 100


@pytest.mark.parametrize(("kind", "windows"), [(PermissionError, False), (FileNotFoundError, True), (OSError, True)])
def test_other_refusals_are_final(kind: type[OSError], windows: bool, clock: Clock) -> None:
    act, tries = refusing(1, kind)
    with pytest.raises(kind):
        patiently(act, windows=windows)
    assert len(tries) == 1
    assert clock.pauses == []


def test_a_move_is_at_once(tmp_path: Path) -> None:
    source, target = tmp_path / "new", tmp_path / "old"
    source.write_text("new")
    target.write_text("old")
    move_over(source, target)
    assert target.read_text() == "new"
    assert not source.exists()


def test_paths_that_lead_to_one_file(tmp_path: Path) -> None:
    file, other = tmp_path / "a.json", tmp_path / "b.json"
    file.write_text("")
    other.write_text("")
    (tmp_path / "link.json").symlink_to(file)
    os.link(file, tmp_path / "Other spelling.json")  # as a file system that takes either case answers
    assert same_path(file, tmp_path / "." / "a.json")
    assert same_path(file, tmp_path / "link.json")
    assert same_path(file, tmp_path / "Other spelling.json")
    assert same_path(tmp_path / "none", tmp_path / "none")
    assert not same_path(file, other)
    assert not same_path(file, tmp_path / "none")
    assert not same_path(f"{file}\0", file)


@pytest.mark.parametrize(
    ("path", "below", "given"),
    [
        ("C:\\a", 10, "C:\\a"),
        ("C:\\" + "a" * 240, 0, "\\\\?\\C:\\" + "a" * 240),
        ("C:\\a", 300, "\\\\?\\C:\\a"),
        ("C:/a/b", 300, "\\\\?\\C:\\a\\b"),
        ("\\\\server\\share\\a", 300, "\\\\?\\UNC\\server\\share\\a"),
        ("//server/share/a", 300, "\\\\?\\UNC\\server\\share\\a"),
        ("\\\\?\\C:\\a", 300, "\\\\?\\C:\\a"),
        ("\\\\.\\pipe\\a", 300, "\\\\.\\pipe\\a"),
    ],
)
def test_long_paths(path: str, below: int, given: str) -> None:
    assert long_path(path, below, windows=True) == given
    assert long_path(path, below, windows=False) == path


@given(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=300), st.integers(0, 400))
def test_a_long_path_is_made_once(name: str, below: int) -> None:
    made = long_path(f"C:\\{name}", below, windows=True)
    assert long_path(made, below, windows=True) == made
    assert made.endswith(f"C:\\{name}")
    assert made.startswith("\\\\?\\") == (len(name) + 3 + below >= 240)


@pytest.mark.skipif(not ON_WINDOWS, reason="other systems replace a file that is open")
@pytest.mark.parametrize("road", ["restore", "set aside", "backup"])
def test_a_file_that_is_read_at_this_moment_is_replaced_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock, road: str
) -> None:
    """The reader is done at the first pause."""
    path, new = tmp_path / "database", tmp_path / "new"
    url = f"sqlite:///{tmp_path / 'from'}"
    asyncio.run(_make(url))
    new.write_bytes(b"new")
    path.write_bytes(b"old")
    reader = path.open("rb")
    move = os.replace

    def moved(source: str | Path, target: str | Path) -> None:
        if not reader.closed:
            raise PermissionError(13, "The process cannot access the file")
        move(source, target)

    monkeypatch.setattr(os, "replace", moved)
    monkeypatch.setattr(clock, "sleep", lambda _: reader.close())
    if road == "restore":
        put_in_place(new, path, keep=False)
        assert path.read_bytes() == b"new"
    elif road == "set aside":
        assert set_aside(path).read_bytes() == b"old"
    else:
        backup.run(url, path, audit=False, force=True, as_json=True)
        assert path.read_bytes().startswith(b"\x1f\x8b")
    assert reader.closed


async def _make(url: str) -> None:
    async with open_database(url):
        pass
