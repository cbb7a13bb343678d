"""Quality and cost of the search, beside full text search in SQLite and plain BM25.

The file of questions is JSON: `{"tools": {name: description}, "queries": [{"query": text, "tool": name}]}`.
"""

import asyncio
import gc
import json
import math
import re
import sqlite3
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.catalog.search.index import SearchIndex, search
from aggregator.catalog.search.semantic.merge import merge_hits
from aggregator.catalog.search.terms.language import plain_words
from aggregator.catalog.search.terms.stem import stem
from aggregator.config.load import load
from aggregator.domain.errors import OperatorError
from aggregator.domain.principal import Principal
from aggregator.domain.records import ToolRecord
from aggregator.gateway.host import Host
from benchmarks.fakes import SilentChannel, fake_stdio_upstreams
from benchmarks.meanings import KnownMeanings
from benchmarks.messages import LEGACY
from benchmarks.report import Table
from benchmarks.systems import write_config

_DEPTH: Final = 100
_MANY: Final = 10_000
_SERVED: Final = 3_048
_A_SERVER: Final = 40
_ASKED: Final = 500

Finder = Callable[[str], list[str]]


def measure(path: Path) -> str:
    """Recall and cost as Markdown."""
    held = json.loads(path.read_text(encoding="utf-8"))
    tools: dict[str, str] = held["tools"]
    queries = [(each["query"], each["tool"]) for each in held["queries"]]
    finders = {
        "FTS5, Porter": _fts5(tools, frozenset()),
        "FTS5, Porter, stop words": _fts5(tools, plain_words().ignored),
        "BM25 as FastMCP has it": _bm25(tools),
        "aggregator": _ours(tools),
    }
    try:
        finders["aggregator, with the models"] = _by_both(tools, [query for query, _ in queries])
    except OperatorError as error:
        print(f"NOT MEASURED with a model: {error}", file=sys.stderr)
    rows = [[name, *_quality(finder, queries)] for name, finder in finders.items()]
    title = f"Retrieval: {len(tools)} tools, {len(queries)} questions"
    quality = Table(title, ["search", "R@1", "R@5", "MRR", "R@1 odd / even", "R@5 odd / even"], rows)
    asked = [query for query, _ in queries]
    return f"{quality}\n{_cost(tools, asked)}\n{asyncio.run(_calls(tools, asked))}"


def _quality(finder: Finder, queries: list[tuple[str, str]]) -> list[str]:
    """Recall at 1 and 5, mean reciprocal rank; recall for the odd and the even tools apart, in the order of names."""
    half = {tool: at % 2 for at, tool in enumerate(sorted({tool for _, tool in queries}))}
    ranks: list[tuple[int, int]] = []
    for query, tool in queries:
        found = finder(query)
        ranks.append((half[tool], found.index(tool) + 1 if tool in found else 0))
    halves = [[rank for which, rank in ranks if which == side] for side in (1, 0)]
    every = [rank for _, rank in ranks]
    return [
        f"{_recall(every, 1):.3f}",
        f"{_recall(every, 5):.3f}",
        f"{sum(1 / rank for rank in every if rank) / len(every):.3f}",
        " / ".join(f"{_recall(side, 1):.3f}" for side in halves),
        " / ".join(f"{_recall(side, 5):.3f}" for side in halves),
    ]


def _recall(ranks: list[int], depth: int) -> float:
    return sum(0 < rank <= depth for rank in ranks) / max(1, len(ranks))


def _records(server: str, tools: dict[str, str]) -> tuple[ToolRecord, ...]:
    return tuple(
        ToolRecord(
            server=server,
            prefix=server,
            own_name=name,
            definition={"name": name, "description": text, "inputSchema": {"type": "object"}},
            listed={},
            timeout=30.0,
        )
        for name, text in tools.items()
    )


def _everything(_: ToolRecord) -> bool:
    return True


def _ours(tools: dict[str, str]) -> Finder:
    sight = SearchIndex().with_server("tools", "", _records("tools", tools)).visible_to(_everything)
    return lambda query: [hit.tool.own_name for hit in search(sight, query, _DEPTH)]


def _by_both(tools: dict[str, str], queries: list[str]) -> Finder:
    """Keywords and the models. Raises OperatorError if none is installed."""
    records = _records("tools", tools)
    by_name, meanings = {tool.name: tool for tool in records}, KnownMeanings(records, queries)
    sight = SearchIndex().with_server("tools", "", records).visible_to(_everything)

    def find(query: str) -> list[str]:
        hits = merge_hits(search(sight, query, _DEPTH), meanings.of(query, by_name), by_name, _DEPTH)
        return [hit.tool.own_name for hit in hits]

    return find


def _fts5(tools: dict[str, str], stopped: frozenset[str]) -> Finder:
    """SQLite's own ranking over names, split at capitals, and descriptions: any word once, Porter stems;
    words whose stems are in `stopped` are not asked for."""
    database = sqlite3.connect(":memory:")
    database.execute("create virtual table tools using fts5(own unindexed, name, description, tokenize='porter')")
    split = {name: re.sub(r"(?<=[a-z])(?=[A-Z])|[_-]", " ", name) for name in tools}
    database.executemany("insert into tools values (?, ?, ?)", [(name, split[name], tools[name]) for name in tools])

    def find(query: str) -> list[str]:
        asked_for = dict.fromkeys(re.findall(r"\w+", query.lower()))
        words = " OR ".join(f'"{word}"' for word in asked_for if stem(word) not in stopped)
        if not words:
            return []
        asked = "select own from tools where tools match ? order by rank limit ?"
        return [row[0] for row in database.execute(asked, (words, _DEPTH))]

    return find


def _bm25(tools: dict[str, str]) -> Finder:
    """Name and description as one text, split at what is no letter or digit; k1 1.5, b 0.75; no stems."""
    texts = {name: Counter(_plain(f"{name} {text}")) for name, text in tools.items()}
    lengths = {name: counted.total() for name, counted in texts.items()}
    mean = sum(lengths.values()) / max(1, len(lengths))
    frequency = Counter(word for counted in texts.values() for word in counted)

    def score(name: str, words: list[str]) -> float:
        counted, length = texts[name], 0.25 + 0.75 * lengths[name] / mean
        return sum(
            math.log(1 + (len(texts) - frequency[word] + 0.5) / (frequency[word] + 0.5))
            * (counted[word] * 2.5 / (counted[word] + 1.5 * length))
            for word in words
            if word in counted
        )

    def find(query: str) -> list[str]:
        scores = {name: score(name, _plain(query)) for name in texts}
        return [name for name in sorted(scores, key=lambda name: -scores[name]) if scores[name] > 0][:_DEPTH]

    return find


def _plain(text: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9]+", text.lower()) if word]


def _copies(tools: dict[str, str], count: int) -> dict[str, dict[str, str]]:
    """Return so many tools by server: the given ones again and again, each with its number in its text."""
    names = list(tools)
    servers: dict[str, dict[str, str]] = {}
    for at in range(count):
        name = names[at % len(names)]
        own = servers.setdefault(f"s{at // _A_SERVER}", {})
        own[f"{name}_{at // len(names)}"] = f"{tools[name]} Number {at}."
    return servers


async def _calls(tools: dict[str, str], queries: list[str]) -> Table:
    """Whole calls of `search_tools` through the gateway, by an agent that may use all tools and one that may half."""
    shelves = _copies(tools, _SERVED)
    lists = {
        server: [{"name": name, "description": text, "inputSchema": {"type": "object"}} for name, text in own.items()]
        for server, own in shelves.items()
    }
    fake_stdio_upstreams(lists)
    with TemporaryDirectory() as place:
        folder = Path(place)
        policies = folder / "policies"
        policies.mkdir()
        half = ", ".join(f"{server}.*" for server in list(lists)[::2])
        (policies / "main.yaml").write_text(f"agents:\n  all: {{ allow: ['*'] }}\n  half: {{ allow: [{half}] }}\n")
        config = load(write_config(folder, {server: {"command": "played"} for server in lists}), {}).config
        app = build_app(config, policies, None)
        rows: list[list[str]] = []
        async with app.running():
            await app.supervisor.wait_all_tried()
            while "being indexed" in await _search(app, "all", 1, "number"):
                pass
            for agent, level in (("all", 1), ("all", 2), ("half", 1), ("half", 2)):
                rows.append([agent, str(level), *[await _asked(app, agent, level, queries) for _ in range(2)]])
    head = ["agent sees", "level", "first time: p50, p99", "again: p50, p99"]
    return Table(f"search_tools over {_SERVED:,} tools, CPU of a whole call", head, rows)


async def _asked(app: App, agent: str, level: int, queries: list[str]) -> str:
    taken: list[float] = []
    for query in queries[:_ASKED]:
        before = time.thread_time()
        await _search(app, agent, level, query)
        taken.append(1000 * (time.thread_time() - before))
    return _quantiles(taken)


async def _search(app: App, agent: str, level: int, query: str) -> str:
    """Call `search_tools` and return its text."""
    host = Host("http", "canonical", Principal(agent), LEGACY, session="one")
    params = {"name": "search_tools", "arguments": {"query": query, "level": level}}
    answer = await app.gateway.answer(host, "tools/call", params, SilentChannel())
    assert "isError" not in answer, answer
    text: str = answer["content"][0]["text"]
    return text


def _cost(tools: dict[str, str], queries: list[str]) -> Table:
    """An index of 10,000 tools."""
    shelves = [(server, server, _records(server, own)) for server, own in _copies(tools, _MANY).items()]
    gc.collect()
    tracemalloc.start()
    index = SearchIndex.of(shelves)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    before = time.process_time()
    index = SearchIndex.of(shelves)
    built = time.process_time() - before
    before = time.process_time()
    index.with_server(*shelves[0])
    again = time.process_time() - before
    allowed = frozenset(tool.name for _, _, own in shelves for tool in own)
    half = frozenset(sorted(allowed)[::2])
    rows = [
        ["build, CPU", f"{built:.2f} s"],
        [f"one server of {_A_SERVER} tools anew, CPU", f"{1000 * again:.1f} ms"],
        ["memory", f"{held / 2**20:.0f} MiB"],
    ]
    for who, names_seen in (("all", allowed), ("half", half)):
        sight = index.visible_to(names_seen)
        kept = _times(lambda query, sight=sight: search(sight, query, 10), queries)  # type: ignore[misc]
        fresh = _times(lambda query, seen=names_seen: index.search(query, seen, 10), queries)  # type: ignore[misc]
        rows.append([f"search, {who} in sight, sight kept: p50, p99", kept])
        rows.append([f"search, {who} in sight, sight made each time: p50, p99", fresh])
    return Table(f"Search over {len(index):,} tools", ["what", "cost"], rows)


def _times(ask: Callable[[str], object], queries: list[str]) -> str:
    """CPU time of this thread, so that a busy machine does not count."""
    taken = []
    for query in queries[:_ASKED]:
        before = time.thread_time()
        ask(query)
        taken.append(1000 * (time.thread_time() - before))
    return _quantiles(taken)


def _quantiles(taken: list[float]) -> str:
    taken.sort()
    return f"{taken[len(taken) // 2]:.2f} ms, {taken[int(len(taken) * 0.99)]:.2f} ms"
