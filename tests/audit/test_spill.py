"""The files beside the database: together they stay in their bound, and a failed write leaves no part of a row."""

import os
from pathlib import Path

import pytest

from aggregator.audit import spill as spill_module
from aggregator.audit.spill import Spill, SpillFull
from aggregator.storage.audit.chain import ChainEntry, entry


def told(summary: str) -> ChainEntry:
    return entry("policy_reloaded", {"at": 1.0, "summary": summary})


def summaries(spill: Spill) -> list[str]:
    found = [batch for file in spill.files() if (batch := spill.read(file)) is not None]
    return [one.values["summary"] for batch in found for one in batch.entries]


def size_of(base: Path) -> int:
    return sum(one.stat().st_size for one in base.parent.iterdir())


def grow(spill: Spill, *words: str, most: int = 1000) -> None:
    spill.grow([told(one) for one in words], 1.0, most)


def test_the_file_that_grows_counts_as_those_that_wait(tmp_path: Path) -> None:
    """D9: to the byte; what is refused is in no file, and what came before stays."""
    (tmp_path / "tried").mkdir()
    tried = Spill(tmp_path / "tried" / "a.db", 2**20)
    tried.keep([told("kept")], None, 0.5)
    grow(tried, "first")
    grow(tried, "second")
    room = size_of(tried.base)
    for less in (0, 1):
        (tmp_path / str(less)).mkdir()
        spill = Spill(tmp_path / str(less) / "a.db", room - less)
        spill.keep([told("kept")], None, 0.5)
        grow(spill, "first")
        if less:
            with pytest.raises(SpillFull):
                grow(spill, "second")
        else:
            grow(spill, "second")
        assert size_of(spill.base) <= room - less
        assert summaries(spill) == ["kept", "first", "second"][: 3 - less]


@pytest.mark.parametrize("written", ["none", "half", "all, but not synced"])
def test_a_write_that_fails_leaves_nothing_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    """D9: the next row is shorter than what had come; the file is read whole."""
    spill, write = Spill(tmp_path / "a.db", 2**20), spill_module._write

    def failing(descriptor: int, text: bytes) -> None:
        os.write(descriptor, {"none": b"", "half": text[: len(text) // 2]}.get(written, text))
        raise OSError("the disk is full")

    grow(spill, "first")
    monkeypatch.setattr(spill_module, "_write", failing)
    with pytest.raises(OSError, match="full"):
        grow(spill, "lost " * 100, "lost too")
    monkeypatch.setattr(spill_module, "_write", write)
    grow(spill, "next")
    assert summaries(spill) == ["first", "next"]


def test_a_file_has_so_many_rows_but_for_those_of_one_go(tmp_path: Path) -> None:
    spill = Spill(tmp_path / "a.db", 2**20)
    for words in (("1", "2"), ("3",), ("4",), ("5", "6", "7", "8"), ("9",)):
        grow(spill, *words, most=3)
    batches = [spill.read(file) for file in spill.files()]
    assert sorted(len(batch.entries) for batch in batches if batch is not None) == [1, 1, 3, 4]
