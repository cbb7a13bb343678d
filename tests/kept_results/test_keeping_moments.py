"""What is shown of a result and what is kept, each condition by itself: bounds, errors, schemas, owners, and places."""

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

import pytest

from aggregator.domain.principal import Principal, TokenFacts
from aggregator.policy.limits import Limits, ResultLimit
from aggregator.results.config import ResultsConfig
from aggregator.results.gateway import sealing
from aggregator.results.gateway.handles import URI_HEAD, handle_in, new_handle, owner_of
from aggregator.results.gateway.keeper import (
    PREVIEW_TOKENS,
    NoSuchResult,
    PageBounds,
    PageRequest,
    ResultKeeper,
    ResultSource,
    whole_as_contents,
)
from aggregator.results.gateway.sealing import KeptResultDamaged, seal, unseal
from aggregator.results.gateway.showing import LargeResults, knows_links
from aggregator.results.read.document import ResultDocument
from aggregator.results.read.read import BadRead
from aggregator.storage.errors import StorageBusy
from tests.peers.toolbox import Json

ADA: Final = Principal("ada", key_id="k1")
SOURCE: Final = ResultSource("shop", "orders")
# Some 4,000 tokens.
LONG: Final = "word " * 4_000
# It cannot be made shorter by compression.
RANDOM: Final = "".join(sha256(bytes([number])).hexdigest() for number in range(50))
ITEMS: Final = [{"id": number, "name": f"an order {number}"} for number in range(800)]


class Rows:
    """The table of kept results."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], tuple[list[bytes], float]] = {}
        self.away = False
        self.full = False
        self.none = False

    async def results(self) -> Any:
        if self.away:
            raise StorageBusy("away")
        return None if self.none else self

    async def add(
        self, id_: str, owner: str, parts: Sequence[bytes], *, now: float, expires: float, max_bytes: int
    ) -> bool:
        if not self.full:
            self.kept[id_, owner] = list(parts), expires
        return not self.full

    async def parts(self, id_: str, owner: str, *, now: float) -> list[bytes] | None:
        found, expires = self.kept.get((id_, owner), (None, 0.0))
        return found if now < expires else None


class Here:
    """The large results of a process."""

    def __init__(self, rows: Rows | None = None, preview_tokens: int = PREVIEW_TOKENS, **config: Any) -> None:
        self.now = 1_000.0
        self.rows = rows
        self.keeper = ResultKeeper(rows, ResultsConfig(**config), lambda: self.now, preview_tokens=preview_tokens)
        self.results = LargeResults(self.keeper)
        self.may_read = True
        self.asked: list[tuple[str, str]] = []

    async def fitted(self, result: Json, limits: Limits = Limits(), **more: Any) -> Json:  # noqa: B008 - a value
        given: Json = {"keeps_structured": False, "links": True, "labels": ("private",), **more}
        return await self.results.fitted(result, limits, ADA, SOURCE, **given)

    def _looked(self, server: str, own_name: str) -> bool:
        self.asked.append((server, own_name))
        return self.may_read

    async def page(self, handle: str, principal: Principal = ADA, **asked: Any) -> str:
        return (await self.keeper.page(principal, handle, PageRequest(**asked), self._looked)).text


def text(content: str, **more: Any) -> Json:
    return {"content": [{"type": "text", "text": content}], **more}


def limit(most: int) -> ResultLimit:
    return ResultLimit(most, "rule", "source")


def embedded(content: str) -> Json:
    return {"content": [{"type": "resource", "resource": {"uri": "x:y", "text": content}}]}


STRUCTURED: Final[Json] = {"content": [], "structuredContent": {"items": ITEMS}}
IMAGE: Final[Json] = {"type": "image", "data": "A" * 600, "mimeType": "image/png"}
IMAGES: Final[Json] = {"content": [{"type": "text", "text": "a"}, IMAGE, IMAGE, IMAGE, IMAGE]}
BOUND: Final = Limits(tokens=limit(500))
BYTES: Final = Limits(result=limit(2_000))
# Results, the settings, the limits, and what is shown: whole, shown (in part, kept), cut (for its bytes), lost (cut and
# not kept).
SHOWN: Final[dict[str, tuple[Json, Json, Limits, Json, str]]] = {
    "short": (text("a"), {}, Limits(), {}, "whole"),
    "long": (text(LONG), {"max_tokens": 1_000}, Limits(), {}, "shown"),
    "long, and the configuration bounds nothing": (text(LONG), {"max_tokens": 0}, Limits(), {}, "whole"),
    "long, and a policy bounds it": (text(LONG), {"max_tokens": 0}, BOUND, {}, "shown"),
    "within the configuration, and a policy bounds it": (text(LONG), {"max_tokens": 10_000}, BOUND, {}, "shown"),
    "within a policy, and the configuration bounds it": (
        text(LONG),
        {"max_tokens": 1_000},
        Limits(tokens=limit(10_000)),
        {},
        "shown",
    ),
    "long for a program": (text(LONG), {"max_tokens": 1_000}, BOUND, {"for_program": True}, "whole"),
    "a long error": (text(LONG, isError=True), {"max_tokens": 1_000}, BOUND, {}, "whole"),
    "an error that is none": (text(LONG, isError=False), {"max_tokens": 1_000}, Limits(), {}, "shown"),
    "an embedded text": (embedded(LONG), {"max_tokens": 1_000}, Limits(), {}, "shown"),
    "structured": (STRUCTURED, {"max_tokens": 1_000}, Limits(), {}, "shown"),
    "structured, as was promised": (STRUCTURED, {"max_tokens": 1_000}, Limits(), {"keeps_structured": True}, "whole"),
    "structured, as was promised, with a long text": (
        {**STRUCTURED, **text(LONG)},
        {"max_tokens": 1_000},
        Limits(),
        {"keeps_structured": True},
        "shown",
    ),
    "short in bytes": (text("a"), {}, BYTES, {}, "whole"),
    "too many bytes": (text(LONG), {}, BYTES, {}, "cut"),
    "too many bytes for a program": (text(LONG), {}, BYTES, {"for_program": True}, "cut"),
    "too many bytes of an error": (text(LONG, isError=True), {}, BYTES, {}, "cut"),
    "too many bytes, structured": (STRUCTURED, {}, BYTES, {}, "cut"),
    "too many bytes, structured as was promised": (STRUCTURED, {}, BYTES, {"keeps_structured": True}, "cut"),
    "too many bytes of another kind": (IMAGES, {}, BYTES, {}, "cut"),
    "too many bytes, promised and not there": (text(LONG), {}, BYTES, {"keeps_structured": True}, "cut"),
}
# Those that are errors where they are cut: an error, and a promise that is not kept.
ERRORS: Final = {"too many bytes of an error", "too many bytes, structured as was promised"}


@pytest.mark.parametrize("case", SHOWN)
async def test_what_is_shown(case: str) -> None:
    result, config, limits, more, expected = SHOWN[case]
    here = Here(Rows(), preview_tokens=200, **config)
    before = json.dumps(result)
    found = await here.fitted(result, limits, **more)
    assert json.dumps(result) == before, "what was given stays as it is"
    assert (found is result) is (expected == "whole")
    if found is result:
        assert here.rows is not None
        assert here.rows.kept == {}
        return
    meta = found["_meta"]
    assert ("aggregator/truncated" in meta) is (expected == "cut")
    handle = meta["aggregator/shortened"]["handle"]
    # How much is shown of it, in tokens, is known where its text was cut.
    assert ("tokens" in meta["aggregator/shortened"]) is (result is not IMAGES)
    if result is IMAGES:
        assert [block["type"] for block in found["content"]] == ["text", "image", "image", "image", "text"]
        assert "Shown: all of its text, without a block of another kind." in found["content"][-1]["text"]
    assert (found.get("isError") is True) is (case in ERRORS)
    # A link to the whole leads beyond the bytes of a policy.
    assert any(block["type"] == "resource_link" for block in found["content"]) is (expected == "shown")
    if expected == "cut":
        assert len(json.dumps(found["content"])) < 2_000 + 600
    promised = bool(more.get("keeps_structured")) and expected == "shown"
    assert ("structuredContent" in found) is promised
    if "structuredContent" in result and not promised and expected == "shown":
        assert meta["aggregator/shortened"]["structuredContent"] == "left out"
    kept = await here.keeper.open(ADA, handle, here._looked)
    assert json.loads(json.dumps(kept.document.result)) == json.loads(before)
    assert (kept.source, kept.labels) == (SOURCE, ("private",))
    least = [most for most in (config.get("max_tokens", 10_000), limits.tokens.most if limits.tokens else 0) if most]
    assert kept.bounds == PageBounds(min(least), limits.result.most if limits.result is not None else None)


@pytest.mark.parametrize("how", ["no database", "away", "none now", "full"])
async def test_what_cannot_be_kept_is_whole_unless_its_bytes_are_too_many(how: str) -> None:
    rows = Rows()
    rows.away, rows.none, rows.full = how == "away", how == "none now", how == "full"
    here = Here(None if how == "no database" else rows, max_tokens=1_000, preview_tokens=200)
    result = text(LONG)
    assert await here.fitted(result) is result
    assert await here.fitted(result, BOUND) is result
    cut = await here.fitted(result, BYTES)
    assert "handle" not in cut["_meta"]["aggregator/shortened"]
    assert "The rest is lost" in cut["content"][-1]["text"]
    assert here.results.most_characters > 10**9 if how == "no database" else here.results.most_characters < 10**4


async def test_links_are_for_those_who_know_them() -> None:
    here = Here(Rows(), max_tokens=1_000, preview_tokens=200)
    found = await here.fitted(text(LONG, _meta={"a": 1}, more="kept"), links=False)
    assert [block["type"] for block in found["content"]] == ["text", "text"]
    assert (found["_meta"]["a"], found["more"]) == (1, "kept")
    for frontend, version, known in (
        ("http", "2025-06-18", True),
        ("http", "2025-03-26", False),
        ("stdio", "2026-07-28", True),
        ("v1", "2026-07-28", False),
    ):
        assert knows_links(frontend, version) is known


@pytest.mark.parametrize("structured", [True, False])
def test_what_is_surely_small(structured: bool) -> None:
    """By a look at lengths: each text counts, and what is structured where nothing promised it."""
    results = Here(Rows(), max_tokens=1_000).results
    for part in (text(LONG), embedded(LONG), {"content": [*text("a")["content"], *text(LONG)["content"]]}):
        assert not results.is_small(part, structured=structured)
    assert results.is_small(STRUCTURED, structured=False)
    assert not results.is_small(STRUCTURED, structured=True)
    assert results.is_small(text("a" * 100), structured=structured, most=100)
    assert not results.is_small(text("a" * 101), structured=structured, most=100)
    for length, small in ((90, True), (95, not structured)):
        both = {**text("a" * length), "structuredContent": {"a": 1}}
        assert results.is_small(both, structured=structured, most=100) is small
    for odd in ({}, {"content": None}, {"content": ["x", {"text": 7}, {"resource": "x"}]}):
        assert results.is_small(odd, structured=structured)


# -- who reads what


def bearer(subject: str, client: str | None = None) -> TokenFacts:
    return TokenFacts("https://idp", subject, client)


OWNERS: Final = [
    ADA,
    Principal("ada"),
    Principal("bob", key_id="k1"),
    Principal("ada", key_id="k2"),
    Principal("ada", token=bearer("x")),
    Principal("ada", token=bearer("y")),
    Principal("ada", token=bearer("x", "program")),
    Principal("ada", token=TokenFacts("https://other", "x")),
]


async def test_a_result_is_its_owners_alone() -> None:
    assert len({owner_of(one) for one in OWNERS}) == len(OWNERS)
    assert owner_of(Principal("ada", "t", ("r",), "k1")) == owner_of(ADA)
    here = Here(Rows())
    handle = await here.keeper.keep(ADA, ResultDocument.of(text("a")), PageBounds(1_000), SOURCE)
    assert handle is not None
    assert "a" in await here.page(handle)
    assert "a" in await here.page(f" {URI_HEAD}{handle} ")
    for other in OWNERS[1:]:
        with pytest.raises(NoSuchResult):
            await here.page(handle, other)


@pytest.mark.parametrize(
    "why", ["over", "denied", "another handle", "no handle", "away", "no database now", "damaged", "a part is missing"]
)
async def test_why_there_is_no_such_result(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "PART_BYTES", 100)
    rows = Rows()
    here = Here(rows, keep=60.0)
    handle = await here.keeper.keep(ADA, ResultDocument.of(text(RANDOM)), PageBounds(100), SOURCE)
    assert handle is not None
    here.now += 59.9
    assert await here.page(handle)
    assert here.asked == [("shop", "orders")]
    asked = handle
    match why:
        case "over":
            here.now += 0.1
        case "denied":
            here.may_read = False
        case "another handle":
            asked = new_handle()
        case "no handle":
            asked = "agr_x"
        case "away":
            rows.away = True
        case "no database now":
            rows.none = True
        case _:
            parts = next(iter(rows.kept.values()))[0]
            if why == "damaged":
                parts[1] = parts[1][:-1] + bytes([parts[1][-1] ^ 1])
            else:
                del parts[1]
    with pytest.raises(NoSuchResult):
        await here.page(asked)
    with pytest.raises(NoSuchResult):
        await Here(None).page(handle)


async def test_memory_is_taken_for_all_of_a_result_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """D7: for its text, however little space it takes in the database; none for one that is not read."""
    taken: list[int] = []
    monkeypatch.setattr("aggregator.results.gateway.keeper.hold", taken.append)
    here = Here(Rows(), max_tokens=1_000, preview_tokens=200)
    handle = (await here.fitted(text(LONG)))["_meta"]["aggregator/shortened"]["handle"]
    here.may_read = False
    with pytest.raises(NoSuchResult):
        await here.page(handle)
    assert taken == []
    here.may_read = True
    await here.page(handle)
    assert len(taken) == 1
    assert taken[0] >= len(LONG)


async def test_what_a_program_printed_is_read_whatever_is_denied() -> None:
    """It is of no tool."""
    here = Here(Rows())
    here.may_read = False
    handle = await here.keeper.keep(ADA, ResultDocument.of(text("a")), PageBounds(100), None)
    assert handle is not None
    assert "a" in await here.page(handle)
    assert here.asked == []


@pytest.mark.parametrize("bound", [None, 600, 100])
async def test_a_page_keeps_to_its_bounds(bound: int | None) -> None:
    here = Here(Rows(), preview_tokens=300)
    handle = await here.keeper.keep(ADA, ResultDocument.of(text("wörd " * 4_000)), PageBounds(400, bound), SOURCE)
    assert handle is not None
    pages = [await here.page(handle), await here.page(handle, limit=10_000), await here.page(handle, limit=50)]
    if bound == 600:
        assert all(len(page.encode()) <= 600 for page in pages)
    if bound is None:
        assert len(pages[2]) < len(pages[0]) < len(pages[1]) < 2_500
    for wrong in (0, -1):
        with pytest.raises(BadRead):
            await here.page(handle, limit=wrong)
    assert await here.page(handle, limit=1)


def test_parts_are_those_that_were_sealed_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "PART_BYTES", 10)
    handle, owner, data = new_handle(), owner_of(ADA), b"0123456789" * 3 + b"end"
    parts = seal(handle, owner, data)
    assert len(parts) == 4
    assert unseal(handle, owner, parts) == data
    assert unseal(handle, owner, seal(handle, owner, b"")) == b""
    wrong = [parts[::-1], parts[:-1], [*parts, parts[-1]], [parts[1], parts[0], *parts[2:]], [*parts[:3], parts[2]], []]
    for given in wrong:
        if given:
            with pytest.raises(KeptResultDamaged):
                unseal(handle, owner, given)
    for other in ((new_handle(), owner), (handle, owner_of(OWNERS[1]))):
        with pytest.raises(KeptResultDamaged):
            unseal(*other, parts)


@pytest.mark.parametrize(
    ("given", "is_one"),
    [("{}", True), (" {}\n", True), (URI_HEAD + "{}", True), ("x{}", False), ("{}x", False), ("{} {}", False)],
)
def test_what_is_a_handle(given: str, is_one: bool) -> None:
    handle = new_handle()
    assert handle_in(given.replace("{}", handle)) == (handle if is_one else None)
    assert handle_in(handle.upper()) is None


def test_the_whole_as_a_resource() -> None:
    blocks = [
        {"type": "text", "text": "a"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "x:y", "blob": "BBBB", "mimeType": 7}},
        {"type": "resource", "resource": "odd"},
        {"type": "resource_link", "uri": "x:y", "mimeType": "text/plain"},
        "odd",
        {"type": "text", "text": None},
    ]
    found = whole_as_contents(ResultDocument.of({"content": blocks, "structuredContent": {"a": 1}}), "agr:1")
    assert found == [
        {"uri": "agr:1", "text": "a"},
        {"uri": "agr:1", "blob": "AAAA", "mimeType": "image/png"},
        {"uri": "agr:1", "blob": "BBBB"},
        {"uri": "agr:1", "mimeType": "application/json", "text": '{"a":1}'},
    ]
    assert whole_as_contents(ResultDocument.of({"structuredContent": None, "content": "odd"}), "agr:1") == []
