"""What is read of the pins and when, which first lists are kept in files, and what is written of a list."""

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from aggregator.pins.app import reader as reader_module
from aggregator.pins.app.first_lists import FirstLists
from aggregator.pins.app.news import PinNews
from aggregator.pins.app.noted import NotedLists
from aggregator.pins.app.reader import PinReader
from aggregator.pins.app.writing import write_list
from aggregator.pins.decide.definition import pinned_item
from aggregator.pins.decide.values import PinKind, PinnedItem
from aggregator.pins.gateway.book import PinBook
from aggregator.pins.gateway.state import JudgedList, ServerPins
from aggregator.pins.storage import Pins
from aggregator.storage.database import open_database
from aggregator.storage.errors import StorageBusy
from aggregator.storage.opening import Database
from aggregator.storage.records import ItemText, SeenItem

ADD: Final = ItemText("tool", "add", "sha256:1", "v1", '{"name":"add"}')
GREET: Final = ItemText("prompt", "greet", "sha256:2", "", '{"name":"greet"}')
ENTRIES: Final = {"shop": "", "bad": ""}


def item(kind: PinKind, said: str) -> PinnedItem:
    return pinned_item(kind, "a", {"name": "a", "description": said}, "")


class Reading:
    """A reader of the pins in a database, and the servers that it had to withhold."""

    def __init__(self, database: Database, url: str) -> None:
        self.database, self.url = database, url
        self.withheld: list[str] = []
        self.reader = PinReader(self, lambda: ENTRIES, lambda server, *_: self.withheld.append(server))

    async def open(self) -> Database:
        """Return the database."""
        return self.database

    def texts(self, server: str) -> set[str | None]:
        """Return the definitions that were read of a server."""
        return {row.definition for row in self.reader.rows.get(server, ())}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path / 'a.db'}"


async def test_the_pins_are_read_again_after_a_change_and_for_another_entry(url: str) -> None:
    async with open_database(url) as database:
        reading, pins = Reading(database, url), database.pins
        reader = reading.reader
        await pins.take_baseline("shop", [ADD], "config", 1.0, ["tool"])
        await pins.take_baseline("bad", [ADD], "config", 1.0, ["tool"])
        assert [await reader.read_rows(), await reader.read_rows()] == [True, False]
        assert reader.taken == {"shop": {"tool"}, "bad": {"tool"}}
        await reader.read_texts(["shop", "bad"])
        assert [reading.texts(server) for server in ENTRIES] == [{ADD.text}] * 2
        reader.forget("shop")
        assert [reading.texts(server) for server in ENTRIES] == [set(), {ADD.text}]
        assert await reader.read_rows(), "the rows of another entry are others"
        assert [reading.texts(server) for server in ENTRIES] == [{None}, {ADD.text}]
        rows = await pins.take_baseline("bad", [GREET], "config", 2.0, ["prompt"])
        reader.take_baseline("bad", "prompt", rows)
        assert reader.taken == {"shop": {"tool"}, "bad": {"tool", "prompt"}}
        assert reading.texts("bad") == {None}
        assert "bad" not in reader.with_texts, "its definitions are read again when they are needed"
        assert await reader.read_rows()
        assert not await reader.read_rows()


async def test_rows_that_are_read_while_an_entry_changes_are_read_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the entry before would count as the pins of the next one."""
    async with open_database(url) as database:
        reading = Reading(database, url)
        await database.pins.take_baseline("shop", [ADD], "config", 1.0, ["tool"])
        all_of, reads = Pins.all, list[str | None]()

        async def changes(self: Pins, server: str | None = None, *, texts: bool = True) -> Any:
            reads.append(server)
            rows = await all_of(self, server, texts=texts)
            if len(reads) < 3:
                reading.reader.forget("shop")
                return rows
            return []

        monkeypatch.setattr(Pins, "all", changes)
        assert await reading.reader.read_rows()
        assert (reads, reading.reader.rows) == ([None] * 3, {})


@pytest.mark.parametrize("by", ["file", "database"])
@pytest.mark.parametrize("moment", ["first", "again"])
async def test_definitions_that_cannot_be_read_cost_their_server(
    url: str, monkeypatch: pytest.MonkeyPatch, by: str, moment: str
) -> None:
    """But if the database takes nothing at all, it is no fault of a server."""
    async with open_database(url) as database:
        reading, faults = Reading(database, url), list[Exception]()
        reader, all_of = reading.reader, Pins.all
        for server in ENTRIES:
            await database.pins.take_baseline(server, [ADD], "config", 1.0, ["tool"])
        await reader.read_rows()
        if by == "database" or moment == "again":
            monkeypatch.setattr(reader_module, "pin_rows", lambda *_: None)
        if moment == "again":
            await reader.read_texts(["shop", "bad"])

        async def fails(self: Pins, server: str | None = None, *, texts: bool = True) -> Any:
            if server == "bad":
                raise faults[0]
            return await all_of(self, server, texts=texts)

        def fails_in_file(path: Path, entries: Any, server: str) -> Any:
            if server == "bad":
                raise faults[0]

        monkeypatch.setattr(Pins, "all", fails)
        if by == "file" and moment == "first":
            monkeypatch.setattr(reader_module, "pin_rows", fails_in_file)

        async def read() -> None:
            if moment == "first":
                await reader.read_texts(["bad", "shop"])
            else:
                await database.pins.note_fault("other", "a change of any row", 1.0)
                await reader.read_rows()

        faults[:] = [StorageBusy("It is busy.")]
        with pytest.raises(StorageBusy):
            await read()
        assert not reading.withheld
        faults[:] = [ValueError("a row")]
        await read()
        assert reading.withheld == ["bad"]
        assert reader.with_texts == {"shop"}
        assert [reading.texts(server) for server in ENTRIES] == [{ADD.text}, {None}]


def upstream_of(*in_part: str) -> Any:
    """Return a server of which these lists came in part."""
    lists = SimpleNamespace(is_whole=lambda kind: kind not in in_part)
    return SimpleNamespace(config=SimpleNamespace(id="shop", entry="e"), lists=lists)


def files(folder: Path) -> list[Path]:
    """Return the files of first lists."""
    return [*folder.glob("*.first-*")]


def kept(folder: Path) -> set[str]:
    """Return the kinds of the lists in files."""
    return {path.name.rpartition("-")[2] for path in files(folder)}


def book_of(*taken: str) -> PinBook:
    """Return a book whose pins are read, with baselines of these kinds."""
    book = PinBook()
    book.default_unread = False
    book.put("shop", ServerPins({}, frozenset(taken)))
    return book


def first(kind: PinKind = "tool", said: str = "One.") -> JudgedList:
    return JudgedList("shop", kind, baseline=(item(kind, said),))


@pytest.mark.parametrize(
    ("judged", "in_part", "is_kept"),
    [
        (first(), (), True),
        (first(), ("prompt",), True),
        (first(), ("tool",), False),
        (first("prompt"), ("tool",), True),
        (first("instructions"), ("instructions",), True),
        (JudgedList("shop", "tool", baseline=()), (), False),
        (JudgedList("shop", "tool"), (), False),
    ],
)
async def test_which_first_lists_are_kept(
    tmp_path: Path, judged: JudgedList, in_part: tuple[str, ...], is_kept: bool
) -> None:
    """Instructions come whole; an empty list shows nothing that could change."""
    lists = FirstLists(tmp_path / "a.db")
    assert not await lists.keep_shown(book_of(), upstream_of(*in_part), [judged])
    assert kept(tmp_path) == ({judged.kind} if is_kept else set())


async def test_the_first_process_that_showed_a_list_counts(tmp_path: Path) -> None:
    """Once for each process: what it shows later is compared with that anyway."""
    base, upstream = tmp_path / "a.db", upstream_of()
    one, other, third = FirstLists(base), FirstLists(base), FirstLists(base)
    assert not await one.keep_shown(book_of(), upstream, [first()])
    assert not await one.keep_shown(book_of(), upstream, [first(said="Two.")]), "it is its own"
    assert not await other.keep_shown(book_of(), upstream, [first()]), "it is the same"
    book = book_of()
    assert await third.keep_shown(book, upstream, [first(said="Two."), first("prompt")])
    assert not book.saw_before("shop", "tool", [item("tool", "One.")]), "the book has it"
    assert not await third.keep_shown(book_of(), upstream, [first(said="Two.")]), "it was compared"
    assert kept(tmp_path) == {"tool", "prompt"}
    late = FirstLists(base)
    found = await late.read(book_of(), {"shop": "e", "other": "e"})
    assert {server: {*kinds} for server, kinds in found.items()} == {"shop": {"tool", "prompt"}}
    assert [one.digest for one in found["shop"]["tool"]] == [item("tool", "One.").digest]
    assert await late.read(book_of(), {"shop": "another"}) == {}
    assert {*(await one.read(book_of(), {"shop": "e"}))["shop"]} == {"prompt"}, "the list of tools is its own"
    assert {*(await late.read(book_of("tool"), {"shop": "e"}))["shop"]} == {"prompt"}
    assert kept(tmp_path) == {"prompt"}, "what is pinned needs no file"
    await FirstLists(base).forget("shop", "e", "prompt")
    assert kept(tmp_path) == {"prompt"}, "it knows of no file"
    await late.forget("shop", "e", "prompt")
    assert kept(tmp_path) == set()
    assert await late.read(book_of(), {"shop": "e"}) == {}


@pytest.mark.parametrize("left", ['[["order", "{}', "", '[["a", "{}"]] and more' * 50])
async def test_a_file_that_is_not_whole_is_replaced_whole(tmp_path: Path, left: str) -> None:
    """However long it is: a process was killed while it wrote."""
    base = tmp_path / "a.db"
    await FirstLists(base).keep_shown(book_of(), upstream_of(), [first()])
    (file,) = files(tmp_path)
    whole = file.read_text()
    file.write_text(left)
    assert await FirstLists(base).read(book_of(), {"shop": "e"}) == {}
    assert not await FirstLists(base).keep_shown(book_of(), upstream_of(), [first()])
    assert file.read_text() == whole


async def test_a_list_that_cannot_be_kept_keeps_no_other_from_it(tmp_path: Path) -> None:
    lists = FirstLists(tmp_path / "a.db")
    await lists.keep_shown(book_of(), upstream_of(), [first()])
    (file,) = files(tmp_path)
    file.unlink()
    file.mkdir()
    lists = FirstLists(tmp_path / "a.db")
    assert not await lists.keep_shown(book_of(), upstream_of(), [first(), first("prompt")])
    assert (await FirstLists(tmp_path / "a.db").read(book_of(), {"shop": "e"}))["shop"].keys() == {"prompt"}
    nowhere = FirstLists(None)
    assert not await nowhere.keep_shown(book_of(), upstream_of(), [first()])
    assert await nowhere.read(book_of(), {"shop": "e"}) == {}


class Events:
    """The audit and the notices of pins, as they come."""

    def __init__(self) -> None:
        self.details: list[dict[str, Any]] = []

    def pins_event(self, server: str, said: str, details: Any) -> None:
        self.details.append(dict(details))

    def definitions_held(self, server: str, names: Iterable[str], why: str) -> None:
        """Drop a notice."""


@pytest.mark.parametrize("same", [True, False])
async def test_an_item_that_waited_is_pinned_by_settings_only_as_it_is_now(url: str, same: bool) -> None:
    """Another process may have seen it otherwise since."""
    now, seen, events = item("tool", "Now."), item("tool", "Now." if same else "Then."), Events()
    waiting = SeenItem("tool", "a", seen.digest, "", seen.definition, ("new",), held=True)
    async with open_database(url) as database:
        pins = database.pins
        await pins.note_seen("shop", [waiting], 1.0)
        judged = JudgedList("shop", "tool", adopting=(now,))
        assert await write_list(pins, judged, PinNews(events), NotedLists(), is_whole=True) is None
        (row,) = await pins.all("shop")
        assert row.digest == (now.digest if same else None)
        assert row.seen_digest == (None if same else seen.digest)
        assert events.details == [], "it is not new"


@pytest.mark.parametrize("is_whole", [True, False])
async def test_what_a_list_in_part_lacks_is_not_gone(url: str, is_whole: bool) -> None:
    """Neither a pinned item, nor one that waits."""
    waiting = SeenItem("tool", "b", "sha256:5", "", "{}", ("new",), held=True)
    events = Events()
    async with open_database(url) as database:
        pins = database.pins
        await pins.take_baseline("shop", [ADD], "config", 1.0, ["tool"])
        await pins.note_seen("shop", [waiting], 1.0)
        judged = JudgedList("shop", "tool", removed=("add",), forgotten=("b",))
        await write_list(pins, judged, PinNews(events), NotedLists(), is_whole=is_whole)
        rows = {row.name: row.classes for row in await pins.all("shop")}
        assert rows == ({"add": ("removed",)} if is_whole else {"add": (), "b": ("new",)})
        assert [one["what"] for one in events.details] == ["removed"] * is_whole


async def test_a_first_list_is_told_with_those_of_its_own_kind(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two lists may be written at one time."""
    monkeypatch.setattr("aggregator.pins.app.writing.time.time", lambda: 7.0)
    events = Events()
    news = PinNews(events)
    async with open_database(url) as database:
        for kind, count in (("tool", 1), ("prompt", 1), ("prompt", 0)):
            judged = JudgedList("shop", kind, baseline=(item(kind, "One."),) * count)  # type: ignore[arg-type]
            rows = await write_list(database.pins, judged, news, NotedLists(), is_whole=True)
            assert rows is not None
    told = [(one["kind"], one["items"]) for one in events.details]
    assert told[:2] == [("tool", 1), ("prompt", 1)]
