"""How well search finds what is asked for in real servers' catalogs, by kind of request, and when it says nothing fits.

The file of requests is a JSON list: `{"query": text, "tools": [canonical names that will do], "kind": word}`. A request
without tools is one that no tool of the catalogs serves; from any other such a one is made by leaving out the servers
of its tools, though another server may serve it too.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from aggregator.catalog.search.index import SearchIndex, search
from aggregator.catalog.search.judge import judge
from aggregator.catalog.search.visible import VisibleTools
from aggregator.domain.records import ToolRecord
from benchmarks.report import Table

_DEPTH: Final = 100
_SERVED, _LEFT_OUT, _HOPELESS = "its tools are there", "their servers are left out", "no tool serves it"


def measure(requests: Path, catalogs: Path) -> str:
    """Recall by kind of request, and how often an answer is called weak, as Markdown."""
    asked: list[dict[str, Any]] = json.loads(requests.read_text(encoding="utf-8"))
    index = _index(catalogs)
    visible = index.visible_to(lambda _: True)
    ranks: dict[str, list[tuple[int, int]]] = {"all": []}
    weak: dict[str, list[tuple[int, bool]]] = {_SERVED: [], _LEFT_OUT: [], _HOPELESS: []}
    for number, one in enumerate(asked, 1):
        query, tools = str(one["query"]), frozenset(map(str, one["tools"]))
        rank, is_weak = _ask(visible, query, tools)
        weak[_SERVED if tools else _HOPELESS].append((number % 2, is_weak))
        if not tools:
            continue
        for kind in ("all", str(one.get("kind", "other"))):
            ranks.setdefault(kind, []).append((number % 2, rank))
        weak[_LEFT_OUT].append((number % 2, _ask(_without(index, tools), query, tools)[1]))
    return f"{_recalls(ranks, len(index))}\n{_shares(weak)}"


def _ask(visible: VisibleTools, query: str, tools: frozenset[str]) -> tuple[int, bool]:
    """Return the place of the first tool that will do, 0 for none, and whether the answer is called weak."""
    found = [hit.tool.name for hit in search(visible, query, _DEPTH)]
    rank = next((place for place, name in enumerate(found, 1) if name in tools), 0)
    return rank, not found or bool(judge(visible, query, found).weak)


def _without(index: SearchIndex, tools: frozenset[str]) -> VisibleTools:
    gone = {name.partition(".")[0] for name in tools}
    return index.visible_to(lambda tool: tool.server not in gone)


def _index(catalogs: Path) -> SearchIndex:
    servers = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(catalogs.glob("*.json"))}
    return SearchIndex.of((name, name, _records(name, held.get("tools", ()))) for name, held in servers.items())


def _records(server: str, tools: Sequence[dict[str, Any]]) -> tuple[ToolRecord, ...]:
    return tuple(
        ToolRecord(server=server, prefix=server, own_name=tool["name"], definition=tool, listed={}, timeout=30.0)
        for tool in tools
    )


def _recalls(ranks: dict[str, list[tuple[int, int]]], tools: int) -> Table:
    rows = [
        [kind, str(len(own)), *(_halves([(side, 0 < rank <= depth) for side, rank in own]) for depth in (1, 5))]
        for kind, own in sorted(ranks.items())
    ]
    return Table(f"Requests over {tools:,} tools", ["kind", "requests", "R@1 (odd / even)", "R@5 (odd / even)"], rows)


def _shares(weak: dict[str, list[tuple[int, bool]]]) -> Table:
    rows = [[what, str(len(own)), _halves(own)] for what, own in weak.items() if own]
    return Table("Answers called weak", ["requests", "count", "share (odd / even)"], rows)


def _halves(held: list[tuple[int, bool]]) -> str:
    odd, even = ([true for side, true in held if side == half] for half in (1, 0))
    return f"{_share([true for _, true in held])} ({_share(odd)} / {_share(even)})"


def _share(held: list[bool]) -> str:
    return f"{sum(held) / max(1, len(held)):.3f}"
