"""How well search finds what is asked for in real servers' catalogs, by kind of request, and when it says nothing fits.

The file of requests is a JSON list: `{"query": text, "tools": [canonical names that will do], "kind": word}`. A request
without tools is one that no tool of the catalogs serves; from any other such a one is made by leaving out the servers
of its tools, though another server may serve it too.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aggregator.catalog.search.index import SearchIndex, search
from aggregator.catalog.search.relevance import check_relevance
from aggregator.catalog.search.semantic.merge import QueryMeaning, merge_hits
from aggregator.domain.errors import OperatorError
from aggregator.domain.records import ToolRecord
from benchmarks.meanings import KnownMeanings
from benchmarks.report import Table

_DEPTH: Final = 100
_FIRST: Final = 5
_FOUND: Final = "one of its tools is among the first five"
_SERVED, _LEFT_OUT, _HOPELESS = "its tools are there", "their servers are left out", "no tool serves it"


def measure(requests: Path, catalogs: Path) -> str:
    """Recall by kind of request, and how often an answer is called weak: by keywords, then with the models."""
    asked: list[dict[str, Any]] = json.loads(requests.read_text(encoding="utf-8"))
    index, tools = _index(catalogs)
    texts = _measured(asked, index, tools, None)
    try:
        meanings = KnownMeanings(tools, [str(one["query"]) for one in asked])
    except OperatorError as error:
        print(f"NOT MEASURED with a model: {error}", file=sys.stderr)
    else:
        texts += _measured(asked, index, tools, meanings)
    return "\n".join(texts)


def _measured(
    asked: Sequence[dict[str, Any]], index: SearchIndex, all_tools: Sequence[ToolRecord], meanings: KnownMeanings | None
) -> list[str]:
    ranks: dict[str, list[tuple[int, int]]] = {"all": []}
    weak: dict[str, list[tuple[int, bool]]] = {_FOUND: [], _SERVED: [], _LEFT_OUT: [], _HOPELESS: []}
    by_name = {tool.name: tool for tool in all_tools}
    for number, one in enumerate(asked, 1):
        query, tools = str(one["query"]), frozenset(map(str, one["tools"]))
        rank, is_weak = _ask(index, by_name, meanings, query, tools)
        weak[_SERVED if tools else _HOPELESS].append((number % 2, is_weak))
        if not tools:
            continue
        if 0 < rank <= _FIRST:
            weak[_FOUND].append((number % 2, is_weak))
        for kind in ("all", str(one.get("kind", "other"))):
            ranks.setdefault(kind, []).append((number % 2, rank))
        gone = {name.partition(".")[0] for name in tools}
        left = {name: tool for name, tool in by_name.items() if tool.server not in gone}
        weak[_LEFT_OUT].append((number % 2, _ask(index, left, meanings, query, tools)[1]))
    how = "by keywords" if meanings is None else f"with {' and '.join(meanings.names)}"
    return [str(_recalls(ranks, len(index), how)), str(_shares(weak, how))]


def _ask(
    index: SearchIndex,
    by_name: Mapping[str, ToolRecord],
    meanings: KnownMeanings | None,
    query: str,
    tools: frozenset[str],
) -> tuple[int, bool]:
    """Return the place of the first tool that will do, 0 for none, and whether the answer is called weak."""
    visible = index.visible_to(by_name.keys())
    meaning = meanings.of(query, by_name) if meanings is not None else QueryMeaning(())
    found = [hit.tool.name for hit in merge_hits(search(visible, query, _DEPTH), meaning, by_name, _DEPTH)]
    rank = next((place for place, name in enumerate(found, 1) if name in tools), 0)
    return rank, not found or bool(check_relevance(visible, query, found, meaning.judge).weak)


def _index(catalogs: Path) -> tuple[SearchIndex, list[ToolRecord]]:
    paths = sorted(catalogs.glob("*.json"))
    servers = {path.stem: _records(path.stem, json.loads(path.read_text(encoding="utf-8"))) for path in paths}
    index = SearchIndex.of((name, name, tools) for name, tools in servers.items())
    return index, [tool for tools in servers.values() for tool in tools]


def _records(server: str, held: Mapping[str, Any]) -> tuple[ToolRecord, ...]:
    return tuple(
        ToolRecord(server=server, prefix=server, own_name=tool["name"], definition=tool, listed={}, timeout=30.0)
        for tool in held.get("tools", ())
    )


def _recalls(ranks: dict[str, list[tuple[int, int]]], tools: int, how: str) -> Table:
    rows = [
        [kind, str(len(own)), *(_halves([(side, 0 < rank <= depth) for side, rank in own]) for depth in (1, 5))]
        for kind, own in sorted(ranks.items())
    ]
    return Table(
        f"Requests over {tools:,} tools, {how}", ["kind", "requests", "R@1 (odd / even)", "R@5 (odd / even)"], rows
    )


def _shares(weak: dict[str, list[tuple[int, bool]]], how: str) -> Table:
    rows = [[what, str(len(own)), _halves(own)] for what, own in weak.items() if own]
    return Table(f"Answers called weak, {how}", ["requests", "count", "share (odd / even)"], rows)


def _halves(held: list[tuple[int, bool]]) -> str:
    odd, even = ([true for side, true in held if side == half] for half in (1, 0))
    return f"{_share([true for _, true in held])} ({_share(odd)} / {_share(even)})"


def _share(held: list[bool]) -> str:
    return f"{sum(held) / max(1, len(held)):.3f}"
