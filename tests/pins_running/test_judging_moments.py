"""How a list is judged, each condition by itself: what is pinned, by which settings, and what of it is known by now."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

import pytest

from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.slices import Steps, at_once
from aggregator.domain.records import ToolRecord
from aggregator.pins.decide.comparison import compare
from aggregator.pins.decide.definition import pinned_item
from aggregator.pins.decide.flags import NO_OTHERS, OtherServers
from aggregator.pins.decide.values import ACCEPTED, ItemKey, OnChange, PinKind, PinnedItem
from aggregator.pins.gateway import judge
from aggregator.pins.gateway.answers import held_note, item_held, tool_held
from aggregator.pins.gateway.book import PinBook, text_version, unwritten
from aggregator.pins.gateway.judge import judge_steps, why_for_hosts
from aggregator.pins.gateway.state import (
    UNREAD,
    HeldItem,
    JudgedList,
    ListedItem,
    PinRules,
    ServerPins,
    UnwrittenPins,
)
from tests.pins.build import Definition, tool

ITEM: Final[ItemKey] = ("tool", "a")
OTHER: Final[ItemKey] = ("tool", "b")
HIDDEN: Final = "It lists\u200b things."


def listed(*definitions: Definition) -> list[ListedItem]:
    return [ListedItem(one["name"], str(sorted(one.items())), one) for one in definitions]


def pinned(definition: Definition, *, version: str | None = None) -> PinnedItem:
    known = str(sorted(definition.items())) if version is None else version
    return pinned_item("tool", definition["name"], definition, known)


A: Final = tool("a")
B: Final = tool("b", description="Another one.")
REWORDED: Final = tool("a", description="It does something else.")
_WHOLE: Final = {"type": "object", "properties": {"title": {"type": "integer"}}, "required": ["title"]}
# No call of one fits the other.
CHANGED: Final = {**REWORDED, "inputSchema": _WHOLE}
FLAGGED: Final = tool("a", description=HIDDEN)


def no_others() -> Steps[OtherServers]:
    yield
    return NO_OTHERS


def judged(
    lists: Sequence[Definition],
    known: ServerPins,
    *,
    asks: bool = False,
    on_change: OnChange = ACCEPTED,
    left_out: frozenset[str] = frozenset(),
) -> JudgedList:
    rules = PinRules(asks, on_change, shows_new=on_change != "hold")
    return at_once(judge_steps("files", "tool", listed(*lists), known, rules, no_others, left_out))


def pins(*items: PinnedItem, **more: Any) -> ServerPins:
    return ServerPins({item.key: item for item in items}, frozenset({"tool"}), **more)


FAULT: Final = "its pins cannot be written"
NONE: Final = ServerPins()
OF_A: Final = pins(pinned(A))
# What is known, the settings (`asks`, `on_change`), what is listed, and which of it is held.
HELD: Final[dict[str, tuple[ServerPins, bool, OnChange, list[Definition], set[str]]]] = {
    "a first list": (NONE, False, ACCEPTED, [A, B], set()),
    "a first list with a flag": (NONE, False, ACCEPTED, [FLAGGED], set()),
    "a first list that has to be approved": (NONE, True, ACCEPTED, [A, B], {"a", "b"}),
    "a first list that has to be approved and only warned of": (NONE, True, "warn", [A], {"a"}),
    "a first list of a server with a lock file": (ServerPins(locked=True), False, "hold", [A], {"a"}),
    "a first list of a server with a lock file, new accepted": (ServerPins(locked=True), False, ACCEPTED, [A], set()),
    "a list after an empty baseline": (pins(), False, "hold", [A], {"a"}),
    "a first list of another kind": (ServerPins({}, frozenset({"prompt"})), False, "hold", [A], set()),
    "what is pinned": (OF_A, False, "hold", [A], set()),
    "what is pinned, to be approved": (OF_A, True, "hold", [A], set()),
    "a new one": (OF_A, False, ACCEPTED, [A, B], set()),
    "a new one, held": (OF_A, False, "hold", [A, B], {"b"}),
    "a new one, to be approved": (OF_A, True, ACCEPTED, [A, B], {"b"}),
    "a new one, only warned of": (OF_A, False, "warn", [A, B], set()),
    "a new one with a flag": (pins(pinned(B)), False, ACCEPTED, [B, FLAGGED], {"a"}),
    "a change": (OF_A, False, ACCEPTED, [CHANGED], {"a"}),
    "a change, only warned of": (OF_A, False, "warn", [CHANGED], set()),
    "a change of a class that is accepted": (OF_A, False, ACCEPTED | {"description"}, [REWORDED], set()),
    "a change that breaks nothing": (OF_A, False, ACCEPTED, [REWORDED], set()),
    "a change that breaks nothing, where every change is held": (OF_A, False, "hold", [REWORDED], set()),
    "a change of a class that is accepted, with a flag": (OF_A, False, ACCEPTED | {"description"}, [FLAGGED], set()),
    "pins that cannot be read": (UNREAD, False, ACCEPTED, [A], {"a"}),
    "pins that cannot be read, only warned of": (UNREAD, False, "warn", [A], set()),
    "pins that cannot be read, to be approved": (UNREAD, True, "warn", [A], {"a"}),
    "what is pinned, and nothing more can be": (replace(OF_A, fault=FAULT), False, ACCEPTED, [A], set()),
    "a new one, and nothing more can be pinned": (replace(OF_A, fault=FAULT), False, ACCEPTED, [A, B], {"b"}),
    "a new one, and nothing can be pinned, only warned of": (replace(OF_A, fault=FAULT), False, "warn", [A, B], set()),
    "a first list, and nothing can be pinned": (ServerPins(fault=FAULT), False, ACCEPTED, [A], {"a"}),
    "the texts are not read, and nothing differs": (replace(OF_A, texts=False), False, "hold", [A], set()),
    "the texts are not read: a change": (replace(OF_A, texts=False), False, ACCEPTED, [CHANGED], {"a"}),
    "the texts are not read: a change, warned of": (replace(OF_A, texts=False), False, "warn", [CHANGED], set()),
    "the texts are not read: a new one": (replace(OF_A, texts=False), False, ACCEPTED, [A, B], set()),
    "the texts are not read: a new one, held": (replace(OF_A, texts=False), False, "hold", [A, B], {"b"}),
    "the texts are not read: a new one, to be approved": (replace(OF_A, texts=False), True, ACCEPTED, [A, B], {"b"}),
    "the texts are not read: a new one, nothing can be pinned": (
        replace(OF_A, texts=False, fault=FAULT),
        False,
        ACCEPTED,
        [A, B],
        {"b"},
    ),
    "accepted by a lock file's settings before": (
        ServerPins({}, locked=True, adopted={ITEM: pinned(A)}),
        False,
        ACCEPTED,
        [CHANGED],
        {"a"},
    ),
    "adopted, and new ones are held now": (
        ServerPins({}, locked=True, adopted={ITEM: pinned(A)}),
        False,
        "hold",
        [A],
        {"a"},
    ),
    "in the lock file and adopted in another form": (
        ServerPins({ITEM: pinned(A)}, locked=True, adopted={ITEM: pinned(CHANGED)}),
        False,
        ACCEPTED,
        [A],
        set(),
    ),
}


@pytest.mark.parametrize("case", HELD)
def test_what_is_held(case: str) -> None:
    known, asks, on_change, lists, held = HELD[case]
    found = judged(lists, known, asks=asks, on_change=on_change)
    assert set(found.held) == held
    for name, one in found.held.items():
        assert (one.server, one.kind, one.name) == ("files", "tool", name)
        assert one.why
    unprotected = known is UNREAD or (bool(known.fault) and bool(held))
    assert all(one.unprotected is unprotected for one in found.held.values())
    first = case.startswith("a first list") and not (asks or known.locked)
    assert (found.baseline is not None) is first
    assert found.provisional is (not known.texts and lists != [A])
    adopted = {one.change.name for one in found.changes if one.adopted}
    new = {one["name"] for one in lists} - {key[1] for key in known.pins} - {key[1] for key in known.adopted}
    # What cannot be pinned now is pinned later.
    new -= set() if known.fault else held
    expected = new if not (first or on_change == "warn" or found.provisional or known is UNREAD) else set()
    assert adopted == expected


def test_a_flag_of_the_first_list_is_noted() -> None:
    found = judged([FLAGGED, B], NONE)
    assert set(found.flagged) == {"a"}
    assert [item.name for item in found.baseline or ()] == ["a", "b"]


@pytest.mark.parametrize("on_change", ["hold", ACCEPTED, "warn"])
@pytest.mark.parametrize("first", [True, False])
def test_what_cannot_be_remembered(monkeypatch: pytest.MonkeyPatch, on_change: OnChange, first: bool) -> None:
    """It could change later without being noticed: a name or a definition that is too long, and one too many."""
    monkeypatch.setattr(judge, "LONGEST_NAME", 10)
    monkeypatch.setattr(judge, "LONGEST_DEFINITION", 2_000)
    monkeypatch.setattr(judge, "MOST_ITEMS", 2)
    c, e = (tool(name, description=f"What {name} does: {name * 30}") for name in "ce")
    known = NONE if first else pins(pinned(c))
    long = [tool("x" * 11, description="With a name " * 9), tool("y", description="d" * 2_000)]
    lists = [*([] if first else [c]), *long, A, B, e]
    found = judged(lists, known, on_change=on_change)
    too_many = {"e"} if first else {"b", "e"}
    if on_change == "warn":
        assert not found.held
    elif on_change == "hold" and not first:
        assert set(found.held) == {"x" * 11, "y", "a", "b", "e"}
    else:
        assert set(found.held) == {"x" * 11, "y", *too_many}
        assert {name for name, one in found.held.items() if "too long" in one.why} == {"x" * 11, "y"}
        assert {name for name, one in found.held.items() if "more than the" in one.why} == too_many
    # What is pinned and what is noted count alike; what is noted already is no more.
    if on_change == ACCEPTED and not first:
        noted = replace(known, seen={OTHER: "digest"})
        assert set(judged([c, A], noted).held) == {"a"}
        assert set(judged([c, B], noted).held) == {"b"}
        assert set(judged([c, A], replace(known, adopted={OTHER: pinned(B)})).held) == {"a"}
        monkeypatch.setattr(judge, "MOST_ITEMS", 3)
        assert set(judged([c, B, A], noted).held) == set()


@pytest.mark.parametrize(
    ("seen", "lists", "left_out", "removed", "same"),
    [
        ({}, [A], frozenset(), {"b"}, set()),
        ({}, [A, B], frozenset(), set(), set()),
        # It is noted as gone already.
        ({OTHER: ""}, [A], frozenset(), set(), set()),
        ({OTHER: ""}, [A, B], frozenset(), set(), {"b"}),
        # It was noted as changed, and is as it was pinned.
        ({OTHER: "digest"}, [A, B], frozenset(), set(), {"b"}),
        ({OTHER: "digest"}, [A], frozenset(), {"b"}, set()),
        # The server lists it, but it cannot be used.
        ({}, [A], frozenset({"b"}), set(), set()),
        ({OTHER: ""}, [A], frozenset({"b"}), set(), {"b"}),
        ({OTHER: "digest"}, [A], frozenset({"b"}), set(), set()),
    ],
)
def test_what_is_gone_and_what_is_there_again(
    seen: dict[ItemKey, str], lists: list[Definition], left_out: frozenset[str], removed: set[str], same: set[str]
) -> None:
    known = pins(pinned(A), pinned(B), seen=seen)
    found = judged(lists, known, left_out=left_out)
    assert set(found.removed) == removed
    assert {one.name for one in found.same} == same
    assert not found.held


@pytest.mark.parametrize(
    ("noted", "lists", "left_out", "forgotten"),
    [
        (OTHER, [A], frozenset(), ("b",)),
        (OTHER, [A, B], frozenset(), ()),
        # The server lists it, but it cannot be used.
        (OTHER, [A], frozenset({"b"}), ()),
        (("prompt", "b"), [A], frozenset(), ()),
        # What has a pin is gone, and not forgotten.
        (ITEM, [B], frozenset(), ()),
    ],
)
def test_what_was_never_approved_is_forgotten_once_it_is_gone(
    noted: ItemKey, lists: list[Definition], left_out: frozenset[str], forgotten: tuple[str, ...]
) -> None:
    assert judged(lists, replace(OF_A, seen={noted: "digest"}), left_out=left_out).forgotten == forgotten


def test_a_new_version_of_what_is_the_same_is_noted_unless_a_lock_file_has_it() -> None:
    for locked in (False, True):
        found = judged([A], pins(pinned(A, version="old"), locked=locked))
        assert [one.name for one in found.same] == ([] if locked else ["a"])
        assert not judged([A], pins(pinned(A), locked=locked)).same


def test_when_something_else_was_approved_is_said() -> None:
    known = pins(pinned(A), approved={ITEM: 1_700_000_000.0})
    for texts in (True, False):
        found = judged([CHANGED, B], replace(known, texts=texts), on_change="hold").held
        assert [found[name].approved for name in ("a", "b")] == [1_700_000_000.0, None]
        assert found["b"].why == "it was not approved yet"
    assert found["a"].why == "it changed"
    assert judged([CHANGED], known).held["a"].why.startswith("its description changed, it takes")
    renamed = judged([{**A, "name": "z"}], known).held["z"]
    assert (renamed.approved, renamed.why) == (1_700_000_000.0, "it has another name")


def test_hosts_are_told_of_every_class_of_a_change_that_is_held() -> None:
    changed = {**A, "description": "else", "annotations": {"readOnlyHint": False}, "inputSchema": {"type": "object"}}
    found = at_once(compare({ITEM: pinned(A)}, [("tool", "a", changed, "")], NO_OTHERS)).changes[0]
    said = why_for_hosts(found)
    assert "its description changed" in said
    assert "its annotations changed" in said
    assert said.count("annotations") == 1
    assert why_for_hosts(replace(found, classes=frozenset({"other"}))) == "it changed"
    assert why_for_hosts(replace(found, classes=frozenset({"new", "description"}))) == "it was not approved yet"


# -- the book


def config(trust: Literal["first_sight", "ask"] = "first_sight", **more: Any) -> ServerConfig:
    return ServerConfig(id="files", key="files", prefix="files", type="stdio", command="x", trust=trust, **more)


def shows(book: PinBook, *definitions: Definition, **more: Any) -> JudgedList:
    """Judge a list by the pins of now, and have it take effect."""
    found = at_once(book.judge_steps(config(on_change="hold"), "tool", listed(*definitions), book.of("files")))
    book.took_effect(found, **more)
    return found


def read(pins_read: ServerPins = NONE) -> tuple[PinBook, list[int]]:
    book, news = PinBook(), list[int]()
    book.on_news = lambda: news.append(1)
    book.default_unread = False
    book.put("files", pins_read)
    return book, news


def names(book: PinBook) -> set[str]:
    return {one.name for one in book.held("files")}


def test_before_the_pins_are_read_all_is_held() -> None:
    book = PinBook()
    assert book.of("files") is UNREAD
    shows(book, A)
    assert names(book) == {"a"}
    assert set(book.unprotected()) == {"files"}
    assert (book.held_count(), dict(book.counts())) == (1, {"files": 1})
    assert "cannot be read" in held_note(book.held("files"))
    book.default_unread = False
    assert book.of("other").readable
    book.default_fault = FAULT
    assert book.of("third").fault == FAULT
    assert book.of("other").fault == ""


def test_the_first_list_that_took_effect_is_the_baseline_written_or_not() -> None:
    book, news = read()
    shows(book, A)
    assert news == [1]
    shows(book, A, B)
    assert names(book) == {"b"}
    shows(book, CHANGED)
    assert names(book) == {"a"}
    # Written meanwhile: it is the same.
    book.put("files", pins(pinned(A)))
    shows(book, A, B)
    assert names(book) == {"b"}
    shows(book, A)
    assert names(book) == set()


def test_what_settings_accept_is_pinned_before_it_is_written() -> None:
    """Also beside a lock file, which has nothing of it."""
    for known in (pins(pinned(B)), ServerPins({OTHER: pinned(B)}, locked=True)):
        book, news = read(known)
        for lists, held, news_so_far in (([B], set(), 0), ([B, A], set(), 1), ([B, CHANGED], {"a"}, 2)):
            entry = config(on_new="show")
            found = at_once(book.judge_steps(entry, "tool", listed(*lists), book.of("files")))
            book.took_effect(found)
            assert names(book) == held
            assert len(news) == news_so_far
        assert book.of("files") is known
        assert [one.name for judged in book.judged("files") for one in judged.adopting] == ["a"]


def test_a_list_that_is_pinned_as_it_is_is_no_news() -> None:
    book, news = read(pins(pinned(A)))
    found = shows(book, A)
    assert (news, found.has_news) == ([], False)


def test_a_name_that_would_not_stand_in_one_line_is_in_no_command() -> None:
    record = ToolRecord("files", "files", "a", {"name": "a", "inputSchema": {}}, {}, 30.0)
    for name, shown in (
        ("a", "diff files a`"),
        ("a b", "diff files 'a b'`"),
        ("a\nb", "diff files`"),
        ("a" * 81, "diff files`"),
    ):
        held = HeldItem("files", "tool", name, "it changed", 1_700_000_000.0)
        assert shown in str(tool_held(record, held))
        assert "approved on 2023-11-14" in str(tool_held(record, held))
    closed = HeldItem("files", "tool", "a", "they cannot be read", unprotected=True)
    assert "pins status" in str(tool_held(record, closed))
    assert "pins status" in str(item_held("a", closed))


def test_a_list_that_another_connection_left_behind_is_no_baseline() -> None:
    book, _ = read()
    shows(book, A, was_read=False)
    shows(book, B)
    assert names(book) == set()
    shows(book, A)
    assert names(book) == {"a"}


def test_what_was_listed_before_this_process_ran_is_the_first_list() -> None:
    for known, expected in (
        (NONE, True),
        (pins(), False),
        (pins(pinned(A)), False),
        (ServerPins({ITEM: pinned(A)}), False),
        (ServerPins(locked=True), False),
        (UNREAD, False),
        (ServerPins({}, frozenset({"prompt"})), True),
        (ServerPins({("prompt", "p"): pinned(A)}), True),
    ):
        book, _ = read(known)
        if known is UNREAD:
            book.default_unread = True
        assert book.saw_before("files", "tool", [pinned(A)]) is expected
        assert book.saw_before("files", "tool", [pinned(A)]) is False, "it is the same"
    book, _ = read()
    first = shows(book, CHANGED)
    assert book.stands(first)
    assert book.saw_before("files", "tool", [pinned(CHANGED)]) is False
    assert book.stands(first)
    assert book.saw_before("files", "tool", [pinned(A)])
    assert not book.stands(first), "it was judged without that"
    shows(book, CHANGED)
    assert names(book) == {"a"}


def test_another_server_of_the_same_name_begins_anew() -> None:
    book, _ = read()
    shows(book, A)
    book.start_anew("files")
    assert book.of("files") is UNREAD
    assert book.judged("files") == []
    book.put("files", NONE)
    shows(book, CHANGED)
    assert names(book) == set()


def test_servers_that_are_not_configured_any_more_are_forgotten() -> None:
    book, _ = read()
    shows(book, A)
    book.keep_only(["other"])
    assert book.judged("files") == []
    shows(book, CHANGED)
    assert names(book) == set(), "a first list again"
    book.keep_only(["files"])
    shows(book, A)
    assert names(book) == {"a"}


def test_one_list_that_cannot_be_compared_is_held_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    book, _ = read(pins(pinned(A)))

    def breaks(*_: object) -> Any:
        raise RuntimeError("a fault of ours")

    with monkeypatch.context() as patched:
        patched.setattr("aggregator.pins.gateway.book.judge_steps", breaks)
        shows(book, A)
    assert names(book) == {"a"}
    assert "by an error of ours" in book.unprotected()["files"]
    shows(book, A)
    assert names(book) == set()


@pytest.mark.parametrize(
    ("sight", "known", "left"),
    [
        (UnwrittenPins({"a": pinned(A)}), NONE, "baseline"),
        (UnwrittenPins({"a": pinned(A)}), UNREAD, "baseline"),
        (UnwrittenPins({"a": pinned(A)}), pins(), ""),
        (UnwrittenPins({"a": pinned(A)}), ServerPins(locked=True), ""),
        (UnwrittenPins({"a": pinned(A)}), ServerPins({}, frozenset({"prompt"})), "baseline"),
        (UnwrittenPins({}), NONE, "baseline"),
        (UnwrittenPins(adopted={"a": pinned(A)}), NONE, "adopted"),
        (UnwrittenPins(adopted={"a": pinned(A)}), pins(pinned(A)), ""),
        (UnwrittenPins(adopted={"a": pinned(A)}), pins(pinned(B)), "adopted"),
        (UnwrittenPins(adopted={"a": pinned(A)}), ServerPins({ITEM: pinned(A)}, locked=True), "adopted"),
        (UnwrittenPins(adopted={"a": pinned(A)}), ServerPins(locked=True, adopted={ITEM: pinned(A)}), ""),
    ],
)
def test_what_is_not_written_yet(sight: UnwrittenPins, known: ServerPins, left: str) -> None:
    found = unwritten(sight, "tool", known)
    if not left:
        assert found is None
    else:
        assert found is not None
        assert (found.baseline is not None, bool(found.adopted)) == (left == "baseline", left == "adopted")


@pytest.mark.parametrize("size", [100, 50_000])
def test_the_approved_instructions_are_shown_until_others_are_approved(size: int) -> None:
    """Long ones are judged in slices beside; they are shown meanwhile if they are what was pinned."""
    text, other = "i" * size, "j" * size
    pin = pinned_item("instructions", "", text, text_version(text))
    known = ServerPins({pin.key: pin}, frozenset({"instructions"}))
    book, news = read(known)
    held = config(on_change="hold")
    assert book.instructions(held, "") == ""
    assert book.instructions(held, text) == text
    assert book.instructions(held, other) == text
    if size > 20_000:
        assert len(news) == 2
        assert at_once(book.instructions_steps(held, other)) is not None
        assert book.instructions(held, other) == text
        assert len(news) == 3, "it is judged"
    judged = at_once(book.instructions_steps(held, other))
    assert at_once(book.instructions_steps(held, other)) is judged, "it was judged before"
    assert at_once(book.instructions_steps(config(on_change="warn"), other)).held == {}, "by other rules"
    assert book.instructions(config(on_change="warn"), other) == other
    book.put("files", replace(known))
    assert at_once(book.instructions_steps(held, other)) is not judged, "by other pins"
    assert [one.kind for one in book.waiting("files")] == ["instructions"]
    assert book.held("files") == []
    at_once(book.instructions_steps(held, ""))
    assert book.waiting("files") == []
    assert PinBook().instructions(held, other) == ""


def test_a_note_says_how_many_are_held_and_why() -> None:
    def one(kind: PinKind, approved: float | None = None, **more: Any) -> HeldItem:
        return HeldItem("files", kind, "a", "it changed", approved, **more)

    notes: Sequence[tuple[Iterable[HeldItem], str]] = [
        ([], ""),
        ([one("tool")], "1 tool held: not approved yet"),
        ([one("tool"), one("tool", 1.0)], "2 tools held: changed since approved"),
        ([one("prompt"), one("instructions")], "1 prompt and its instructions held: not approved yet"),
        ([one("tool", unprotected=True)], "1 tool held: it changed"),
        ([one("tool"), one("prompt"), one("skill")], "1 tool, 1 prompt and 1 skill held: not approved yet"),
    ]
    for held, said in notes:
        assert held_note(list(held)) == said


def test_who_looks_for_look_alikes_is_given_the_tools_of_others() -> None:
    """Only where something is new: a list of what is pinned costs nothing."""
    asked: list[str] = []

    def others() -> Steps[OtherServers]:
        asked.append("asked")
        yield
        return NO_OTHERS

    check: Callable[[list[Definition], ServerPins], JudgedList] = lambda lists, known: at_once(  # noqa: E731
        judge_steps("files", "tool", listed(*lists), known, PinRules(False, ACCEPTED), others)
    )
    check([A], OF_A)
    check([], NONE)
    assert asked == []
    check([A], NONE)
    check([A, B], OF_A)
    check([CHANGED], OF_A)
    assert len(asked) == 3
