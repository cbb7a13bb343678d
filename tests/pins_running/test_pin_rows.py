"""What rows and a lock file say of pins, what is written of a list, and who is told, each condition by itself."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from aggregator.domain.bounds.slices import at_once
from aggregator.pins.app.known import REMOVED, seen_of, server_pins, signature
from aggregator.pins.app.news import PinNews
from aggregator.pins.decide.definition import pinned_item
from aggregator.pins.decide.flags import NO_OTHERS
from aggregator.pins.decide.upgrade import OpenCounts, between
from aggregator.pins.decide.values import ACCEPTED, ItemKey, PinnedItem
from aggregator.pins.gateway.judge import judge_steps
from aggregator.pins.gateway.state import JudgedList, ListedItem, PinRules, ServerPins
from aggregator.storage.records import SERVED, PinRow, SeenItem
from tests.pins.build import Definition, tool

ITEM: Final[ItemKey] = ("tool", "a")
OLD: Final = pinned_item("tool", "a", tool("a"), "v1")
NEW: Final = pinned_item("tool", "a", tool("a", description="It does something else."), "v2")


def row(name: str = "a", pin: PinnedItem | None = OLD, **more: Any) -> PinRow:
    digest, version, text = (pin.digest, pin.version, pin.definition) if pin is not None else (None, None, None)
    found = PinRow("s", "tool", name, digest, version, 5.0, "who", None, None, None, (), None, (), False, text)
    return replace(found, **more)


NONE: Final[frozenset[str]] = frozenset()


def test_what_rows_say() -> None:
    rows = [
        row(),
        row("b", approved=None),
        row("c", None, seen_digest="d", approved=None),
        row("d", seen_digest="e"),
        row("e", classes=(REMOVED,)),
        row("f", kind="of a later version"),
        row("g", version=None, definition=None),
    ]
    found = server_pins(rows, frozenset({"tool"}), None, texts=False, fault="it is full")
    assert {key[1] for key in found.pins} == {"a", "b", "d", "e", "g"}
    assert {key[1]: at for key, at in found.approved.items()} == {"a": 5.0, "d": 5.0, "e": 5.0, "g": 5.0}
    assert {key[1]: digest for key, digest in found.seen.items()} == {"c": "d", "d": "e", "e": ""}
    assert found.pins[ITEM] == OLD
    assert (found.pins["tool", "g"].version, found.pins["tool", "g"].definition) == ("", "")
    assert (found.taken, found.locked, found.texts, found.fault) == (frozenset({"tool"}), False, False, "it is full")


@pytest.mark.parametrize(
    ("rows", "pin", "version", "approved", "adopted"),
    [
        # A row with the digest that the lock file has brings its version, and when it was approved.
        ([row()], replace(OLD, version=""), "v1", {"a": 5.0}, set()),
        ([row(version=None)], replace(OLD, version=""), "", {"a": 5.0}, set()),
        # One with another digest says nothing of what the file has.
        ([row(pin=NEW)], replace(OLD, version=""), "", {}, set()),
        ([row(), row("b")], replace(OLD, version=""), "v1", {"a": 5.0, "b": 5.0}, {"b"}),
        ([], replace(OLD, version=""), "", {}, set()),
        ([row(pin=None, approved=None, seen_digest="d")], replace(OLD, version=""), "", {}, set()),
    ],
)
def test_a_lock_file_goes_before_rows(
    rows: list[PinRow], pin: PinnedItem, version: str, approved: dict[str, float], adopted: set[str]
) -> None:
    found = server_pins(rows, NONE, {pin.key: pin}, texts=False)
    assert found.locked
    assert {key: (one.digest, one.version) for key, one in found.pins.items()} == {ITEM: (OLD.digest, version)}
    assert {key[1]: at for key, at in found.approved.items()} == approved
    assert {key[1] for key in found.adopted} == adopted
    # The texts of what the file has are there; those of rows have to be read first.
    assert found.texts is not bool(adopted)
    assert server_pins(rows, NONE, {pin.key: pin}, texts=True).texts


def test_a_server_that_the_lock_file_has_nothing_of_is_locked_all_the_same() -> None:
    found = server_pins([row()], NONE, {}, texts=True)
    assert (found.locked, dict(found.pins), set(found.adopted)) == (True, {}, {ITEM})
    assert not server_pins([row()], NONE, None, texts=True).locked


# -- what is written of a list


def judged(lists: Sequence[Definition], known: ServerPins, on_change: Any = ACCEPTED) -> JudgedList:
    def no_others() -> Any:
        yield
        return NO_OTHERS

    items = [ListedItem(one["name"], str(sorted(one.items())), one) for one in lists]
    return at_once(
        judge_steps("s", "tool", items, known, PinRules(False, on_change, shows_new=on_change != "hold"), no_others)
    )


CHANGED: Final = tool("a", description="It does something else.")
B: Final = tool("b", description="Another one.")
PINNED: Final = ServerPins({ITEM: OLD}, frozenset({"tool"}))


def test_what_is_noted_of_a_list() -> None:
    found = seen_of(judged([CHANGED, B], PINNED))
    assert [(one.name, one.classes, one.held) for one in found] == [("a", ("description", SERVED), True)], "b is pinned"
    assert (found[0].digest, found[0].text) == (NEW.digest, NEW.definition)
    found = seen_of(judged([CHANGED, B], PINNED, "hold"))
    assert [(one.name, one.classes, one.held) for one in found] == [
        ("a", ("description", SERVED), True),
        ("b", ("new",), True),
    ]
    (broken,) = seen_of(judged([{**CHANGED, "inputSchema": {"required": ["x"]}}], PINNED))
    assert (broken.held, SERVED in broken.classes) == (True, False)
    assert [(one.name, one.digest, one.classes) for one in seen_of(judged([], PINNED))] == [("a", None, (REMOVED,))]
    again = seen_of(judged([tool("a")], replace(PINNED, seen={ITEM: "d"})))
    assert [(one.name, one.digest, one.classes) for one in again] == [("a", OLD.digest, ())]
    renamed = seen_of(judged([{**tool("a"), "name": "z"}], PINNED))
    assert [(one.name, one.renamed_from) for one in renamed if one.digest is not None] == [("z", "a")]


def test_what_was_written_is_written_again_if_it_is_something_else() -> None:
    lists = [
        judged([tool("a"), B], ServerPins()),
        judged([tool("a")], ServerPins()),
        judged([tool("a")], PINNED),
        judged([CHANGED], PINNED),
        judged([CHANGED], PINNED, "warn"),
        judged([], PINNED),
        judged([tool("a"), B], PINNED),
        judged([tool("a"), B], PINNED, "hold"),
        judged([CHANGED], replace(PINNED, texts=False)),
        replace(judged([tool("a")], ServerPins({ITEM: replace(OLD, version="x")})), adopting=(NEW,)),
    ]
    assert len({signature(one) for one in lists}) == len(lists)
    assert signature(judged([CHANGED], PINNED)) == signature(lists[3])


# -- who is told


class Events:
    """The audit and the notices."""

    def __init__(self) -> None:
        self.events: list[Mapping[str, Any]] = []
        self.held: list[tuple[list[str], str]] = []

    def pins_event(self, server: str, said: str, details: Mapping[str, Any]) -> None:
        self.events.append({**details, "said": said})

    def definitions_held(self, server: str, names: Sequence[str], why: str) -> None:
        self.held.append((list(names), why))


def told(list_: JudgedList, new: Sequence[SeenItem]) -> Events:
    events = Events()
    news = PinNews(events)
    news.changed(list_, new)
    news.upgraded("s", "2.0", "2.1")
    news.upgraded("s", "2.1", "2.2")
    return events


def test_who_is_told_of_changes() -> None:
    """People of what is held; the audit of everything that no process told before."""
    both = judged([CHANGED, B], PINNED, "hold")
    found = told(both, seen_of(both))
    assert [(one["what"], one["item"], one["held"]) for one in found.events] == [
        ("changed", "a", False),
        ("new", "b", True),
    ]
    assert [one["served"] for one in found.events] == ["approved", "nothing"]
    assert [one.get("pinned") for one in found.events] == [OLD.digest, None]
    assert [names for names, _ in found.held] == [["a", "b"]]
    assert found.held[0][1].startswith(
        "2.0 -> 2.1: 1 served as approved while newer definitions wait, 1 new and held, nothing"
    )
    warned = judged([CHANGED], PINNED, "warn")
    found = told(warned, seen_of(warned))
    assert [(one["what"], one["held"]) for one in found.events] == [("changed", False)]
    assert "changed:" in found.events[0]["said"]
    assert found.held == []
    gone = judged([], PINNED)
    found = told(gone, seen_of(gone))
    assert [(one["what"], one["items"]) for one in found.events] == [("removed", ["a"])]
    assert found.held == []
    # Another process has told it.
    assert told(both, []).events == []
    # It is as it was pinned again.
    again = judged([tool("a")], replace(PINNED, seen={ITEM: "d"}))
    assert told(again, seen_of(again)).events == []


def test_who_is_told_of_first_lists_and_of_what_settings_accept() -> None:
    events = Events()
    news, first = PinNews(events), judged([tool("a"), B], ServerPins())
    news.baseline(first, 0)
    news.adopted(first, [])
    assert events.events == [], "another process pinned them"
    news.baseline(first, 2)
    assert (events.events[-1]["items"], "before" in events.events[-1]) == (2, False)
    news.baseline(first, 1, before=3)
    assert (events.events[-1]["before"], "flagged" in events.events[-1]) == (3, False)
    news.baseline(replace(first, flagged={"a": ("hidden_characters",)}), 1)
    assert events.events[-1]["flagged"] == {"a": ["hidden_characters"]}
    news.adopted(first, ["b"])
    assert (events.events[-1]["items"], events.events[-1]["held"]) == (["b"], False)
    assert events.held == []
    news.withheld("s", "it cannot be written")
    assert (events.events[-1]["what"], events.held) == ("withheld", [([], "it cannot be written")])


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        (
            [("description", "served")],
            "1 served as approved while newer definitions wait, nothing that was approved is broken",
        ),
        ([("renamed",), ("renamed", "description")], "2 renamed and held"),
        ([("steering",)], "1 held, since approved calls of it would fail"),
        ([("new",), ("renamed",), ("wider",), ("wider",)], "1 new and held, 1 renamed and held, 2 held, since"),
        (
            [("new", "later")],
            "the server added it while it was connected, which is no upgrade: if it does so by design",
        ),
        ([("new", "later"), ("new", "later")], "the server added them while it was connected"),
    ],
)
def test_what_waits_of_a_server_in_one_sentence(classes: list[tuple[str, ...]], said: str) -> None:
    assert said in OpenCounts.of(classes).words()
    assert ("no upgrade" in OpenCounts.of(classes).words()) is all("later" in one for one in classes)
    assert "no upgrade" not in OpenCounts.of([*classes, ("title", "served")]).words()
    assert (between("1.0", "1.1"), between("", "1.1"), between("1.1", "1.1")) == ("1.0 -> 1.1", "1.1", "1.1")
