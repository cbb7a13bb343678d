"""The records that an undo needs: whole, private, and never in the way."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.cli.hosts.install.records import FileChange, InstallRecord, InstallRecords, digest
from aggregator.domain.errors import OperatorError

CONTENT = st.none() | st.binary(max_size=200)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10)


@st.composite
def records(draw: st.DrawFn) -> InstallRecord:
    changes = st.builds(
        FileChange,
        path=st.just(Path("/home/ada/f.json")),
        before=CONTENT,
        after=st.binary().map(digest),
        format=st.sampled_from(["json", "toml", "yaml"]),
        servers=st.lists(TEXT, max_size=3).map(tuple),
        is_list=st.booleans(),
        is_host=st.booleans(),
        entries=st.dictionaries(TEXT, st.none() | st.dictionaries(TEXT, TEXT | st.integers() | st.lists(TEXT))),
        folders=st.just((Path("/home/ada"),)),
        backup=CONTENT,
    )
    found: Any = draw(st.lists(changes, min_size=1, max_size=2))
    return InstallRecord("cursor", "Cursor", draw(TEXT), 1.5, tuple(found), draw(st.none() | TEXT))


@given(st.lists(records(), max_size=3))
def test_records_come_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, made: list[InstallRecord]) -> None:
    kept = InstallRecords(tmp_path_factory.mktemp("records") / "installed")
    added = [kept.add(record) for record in made]
    assert list(kept.all()) == added
    for record in added:
        kept.remove(record)
    assert kept.all() == ()
    assert not kept.folder.exists()


def example(content: bytes) -> InstallRecord:
    change = FileChange(Path("/f"), content, digest(b""), "json", ("mcpServers",))
    return InstallRecord("cursor", "Cursor", "aggregator", 1.0, (change,))


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
def test_only_this_user_reads_them(tmp_path: Path) -> None:
    """D1: They hold the secrets of a host's file."""
    kept = InstallRecords(tmp_path / "installed")
    kept.folder.mkdir(mode=0o755)
    kept.add(example(b"secret"))
    assert stat.S_IMODE(kept.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept.folder.iterdir()} == {0o600}


def test_no_record_shows_what_it_holds(tmp_path: Path) -> None:
    assert "secret" not in repr(InstallRecords(tmp_path).add(example(b"secret")))


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"version": 2}', "\xff", '{"version": 1, "changes": [1]}', "[" * 99999]
)
def test_a_file_that_is_no_record(tmp_path: Path, content: str) -> None:
    path = tmp_path / "000001-cursor-0011aabb.json"
    path.write_text(content)
    with pytest.raises(OperatorError, match="an incomplete record") as caught:
        InstallRecords(tmp_path).all()
    assert str(path) in str(caught.value)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "installed").write_text("")
    with pytest.raises(OperatorError, match="Nothing was installed"):
        InstallRecords(tmp_path / "installed").add(example(b""))


def test_other_files_are_no_records(tmp_path: Path) -> None:
    (tmp_path / ".tmp123").write_text("cut off")
    (tmp_path / "notes.txt").write_text("mine")
    assert InstallRecords(tmp_path).all() == ()


@pytest.mark.parametrize(
    ("now", "state"), [(b"after", "after"), (b"before", "before"), (b"", "changed"), (None, "changed")]
)
def test_states(now: bytes | None, state: str) -> None:
    change = FileChange(Path("/f"), b"before", digest(b"after"), "json", ())
    assert change.state(now) == state
