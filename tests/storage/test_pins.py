"""The rows of pinned definitions: what was approved, and what servers have in its place."""

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

import pytest

from aggregator.domain.bounds.remembered import LONGEST_DEFINITION
from aggregator.pins.storage import Pins
from aggregator.storage.opening import Database
from aggregator.storage.records import ItemText, PinRow, SeenItem
from tests.storage.processes import other_process

TOOL: Final = ItemText("tool", "add", "sha256:1", "v1", '{"name":"add"}')
PROMPT: Final = ItemText("prompt", "add", "sha256:2", "", '{"name":"add"}')
CHANGED: Final = SeenItem(
    "tool", "add", "sha256:9", "v9", '{"name":"add","description":"x"}', ("description", "wider"), None, ("a",), True
)


async def only(pins: Pins, server: str = "one") -> PinRow:
    (row,) = await pins.all(server)
    return row


async def test_the_first_sight_is_kept(database: Database) -> None:
    """What has a pin keeps it, whatever another first sight says; kinds and servers are apart."""
    pins = database.pins
    before = await pins.version()
    rows = await pins.take_baseline("one", [TOOL, PROMPT, replace(TOOL, digest="sha256:3")], "config", 5.0, ["tool"])
    assert [(row.kind, row.name, row.digest, row.approved, row.approved_by) for row in rows] == [
        ("prompt", "add", "sha256:2", 5.0, "config"),
        ("tool", "add", "sha256:1", 5.0, "config"),
    ]
    assert await pins.version() != before
    rows = await pins.take_baseline("one", [replace(TOOL, digest="sha256:4")], "config", 6.0)
    assert rows[1].digest == "sha256:1"
    await pins.take_baseline("two", [TOOL], "config", 7.0, ["tool", "prompt"])
    assert [row.server for row in await pins.all()] == ["one", "one", "two"]
    assert await pins.baselines() == {"one": {"tool"}, "two": {"tool", "prompt"}}
    assert (await pins.all("one"))[1].definition == '{"name":"add"}'
    assert {row.definition for row in await pins.all(texts=False)} == {None}


async def test_a_second_first_list_pins_nothing(database: Database) -> None:
    """Of two processes that see a server for the first time, the first one's list counts, also where it is shorter."""
    pins = database.pins
    await pins.take_baseline("one", [], "config", 1.0, ["tool"])
    rows = await pins.take_baseline("one", [TOOL, PROMPT], "config", 2.0, ["tool"])
    assert [row.kind for row in rows] == ["prompt"]


@pytest.mark.parametrize(
    ("taken", "kinds", "pinned"),
    [((), ("tool",), True), ((), ("prompt",), False), (("tool",), ("tool",), False), (("tool",), ("prompt",), False)],
)
async def test_an_item_that_waits_is_pinned_by_the_first_list_of_its_kind_alone(
    database: Database, taken: tuple[str, ...], kinds: tuple[str, ...], pinned: bool
) -> None:
    pins = database.pins
    await pins.take_baseline("one", [], "config", 1.0, taken)
    await pins.note_seen("one", [CHANGED], 2.0)
    await pins.take_baseline("one", [TOOL], "config", 3.0, kinds)
    row = await only(pins)
    assert (row.digest, row.held) == (("sha256:1", False) if pinned else (None, True))


@pytest.mark.parametrize("before", [None, "1.0"])
@pytest.mark.parametrize("waits", [False, True])
async def test_the_approved_version_stays_while_something_waits(
    database: Database, before: str | None, waits: bool
) -> None:
    """The first version that is known counts as approved: there is no other to compare with."""
    pins = database.pins
    if before is not None:
        assert await pins.note_version("one", before, 1.0) == ""
    if waits:
        await pins.note_seen("one", [CHANGED], 2.0)
    assert await pins.note_version("one", "1.1", 3.0) == (before or "")
    approved = before if waits and before is not None else "1.1"
    assert await pins.versions() == {"one": (approved, "1.1")}


async def test_what_is_seen_is_told_once(database: Database) -> None:
    """A change is new for one process only, and a digest that was told of is not new again."""
    pins = database.pins
    await pins.take_baseline("one", [TOOL], "config", 1.0)
    assert await pins.note_seen("one", [CHANGED], 2.0) == [CHANGED]
    before = await pins.version()
    assert await pins.note_seen("one", [CHANGED], 3.0) == []
    assert await pins.version() == before
    row = await only(pins)
    assert (row.digest, row.seen_digest, row.seen, row.held) == ("sha256:1", "sha256:9", 2.0, True)
    assert (row.classes, row.flags, row.seen_definition) == (("description", "wider"), ("a",), CHANGED.text)
    assert await pins.note_seen("one", [replace(CHANGED, held=False)], 4.0) == []
    assert not (await only(pins)).held
    again = SeenItem("tool", "add", "sha256:1", "v2")
    assert await pins.note_seen("one", [again], 5.0) == []
    row = await only(pins)
    assert (row.version, row.seen_digest, row.seen_definition, row.classes, row.held) == ("v2", None, None, (), False)


async def test_an_item_without_approval_is_forgotten_once_it_is_gone(database: Database) -> None:
    pins = database.pins
    await pins.take_baseline("one", [TOOL], "config", 1.0)
    new = replace(CHANGED, name="sub", classes=("new",))
    assert await pins.note_seen("one", [new, CHANGED], 2.0) == [new, CHANGED]
    await pins.note_seen("one", [SeenItem("tool", "sub", None), SeenItem("tool", "add", None)], 3.0)
    row = await only(pins)
    assert (row.name, row.digest, row.seen_digest) == ("add", "sha256:1", None)


async def test_only_what_was_shown_is_approved(database: Database) -> None:
    """An approval of another digest than the one that waits changes nothing."""
    pins = database.pins
    await pins.take_baseline("one", [TOOL], "config", 1.0)
    assert not await pins.approve("one", "tool", "add", None, "ada", 2.0)
    await pins.note_seen("one", [CHANGED], 2.0)
    assert not await pins.approve("one", "tool", "add", "sha256:8", "ada", 3.0)
    assert not await pins.approve("one", "prompt", "add", "sha256:9", "ada", 3.0)
    assert await pins.approve("one", "tool", "add", "sha256:9", "ada", 3.0)
    row = await only(pins)
    assert (row.digest, row.version, row.definition) == ("sha256:9", "v9", CHANGED.text)
    assert (row.approved, row.approved_by, row.seen_digest, row.held) == (3.0, "ada", None, False)
    assert await pins.note_seen("one", [CHANGED], 4.0) == []
    assert (await only(pins)).seen_digest is None


async def test_a_reset_forgets_the_baseline(database: Database) -> None:
    pins = database.pins
    await pins.take_baseline("one", [TOOL, PROMPT], "config", 1.0, ["tool"])
    await pins.take_baseline("two", [TOOL], "config", 1.0)
    assert await pins.reset("one") == 2
    assert [row.server for row in await pins.all()] == ["two"]
    assert await pins.baselines() == {}


async def test_endless_definitions_fill_no_disk(database: Database) -> None:
    """A definition that is too long is not kept; it stays without a pin."""
    long = "x" * (LONGEST_DEFINITION + 1)
    pins = database.pins
    assert await pins.take_baseline("one", [replace(TOOL, text=long)], "config", 1.0) == []
    assert await pins.note_seen("one", [replace(CHANGED, text=long)], 2.0) == []
    assert await pins.all() == []


async def test_two_processes_take_one_baseline(url: str, database: Database) -> None:
    """Each sees another list first, at one time: one list counts, whole."""
    script = """
        from aggregator.storage.records import ItemText
        async with open_database(url) as database:
            say("ready")
            mark = hear()
            items = [ItemText("tool", str(n), mark, "", "{}") for n in range(300)]
            for server in range(10):
                rows = await database.pins.take_baseline(str(server), items, "config", 1.0, ["tool"])
                say(*{row.digest for row in rows})
    """
    with ExitStack() as stack:
        processes = [stack.enter_context(other_process(url, script)) for _ in range(2)]
        for process in processes:
            assert await asyncio.to_thread(process.read) == "ready"
        for number, process in enumerate(processes):
            process.write(f"sha256:{number}")
        first, second = await asyncio.gather(*(asyncio.to_thread(process.done) for process in processes))
    assert first == second
    assert {len(line.split()) for line in first.splitlines()} == {1}
    assert len(await database.pins.all()) == 3000


@pytest.mark.parametrize("write", ["take_baseline", "note_seen", "note_fault", "claim"])
async def test_one_write_is_of_one_entry(database: Database, write: str) -> None:
    """An operator who changes the entry meanwhile gets no row of the server that had the name before."""
    pins = database.pins
    entry = ["old"]
    pins.entries = lambda: {"one": entry[0]}
    await pins.take_baseline("one", [TOOL], "config", 1.0, ["tool"])
    entry[0] = "new"
    await pins.take_baseline("one", [replace(TOOL, digest="sha256:7")], "config", 1.0, ["tool"])
    before = [replace(row) for row in await pins.all("one")]
    entry[0] = "old"
    asked: list[str] = []

    def changes() -> dict[str, str]:
        asked.append(entry[0])
        return {"one": "old" if len(asked) == 1 else "new"}

    pins.entries = changes
    if write == "take_baseline":
        await pins.fixed().take_baseline("one", [replace(TOOL, name="other")], "config", 2.0)
    elif write == "note_seen":
        assert await pins.note_seen("one", [CHANGED], 2.0) == [CHANGED]
    elif write == "note_fault":
        await pins.note_fault("one", "refused", 2.0)
    else:
        await pins.claim()
    pins.entries = lambda: {"one": "new"}
    assert await pins.all("one") == before
    assert await pins.faults() == {}
    pins.entries = lambda: {"one": "old"}
    if write == "note_seen":
        assert (await only(pins)).seen_digest == CHANGED.digest
    elif write == "take_baseline":
        assert [row.name for row in await pins.all("one")] == ["add", "other"]
    elif write == "note_fault":
        assert await pins.faults() == {"one": "refused"}
