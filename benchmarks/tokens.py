"""The token cost of real servers' tools at each level of detail, and the error of the token estimate."""

import importlib
import json
import os
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from statistics import mean
from typing import Any, Final

from aggregator.catalog.describe.first_sentence import first_sentence, words_of
from aggregator.catalog.describe.levels import level1, level2, level3, shown_name
from aggregator.catalog.describe.markdown import columns
from aggregator.catalog.pages import render
from aggregator.catalog.search.index import SearchIndex
from aggregator.catalog.validate import validate_tools
from aggregator.config.server_config import ServerConfig
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.tokens import estimate
from aggregator.gateway.meta.registry import META_TOOLS, load_meta_tools
from aggregator.gateway.meta.rendering import answer
from benchmarks.report import Table

Count = Callable[[str], int]

_WORST: Final = 5
_LOOKED_AT: Final = 200
_SHOWN: Final = 10
_QUESTIONS: Final = (
    "create an issue in a repository",
    "search the web for news",
    "weather forecast for a city",
    "send a message to a channel",
    "list files in a folder",
    "run a SQL query",
    "take a screenshot of a page",
    "convert a time between time zones",
    "upload a file",
    "规划驾车路线",
    "get the transcript of a video",
    "restart a deployment",
)


def measure(folder: Path) -> str:
    """The whole report.

    Raises:
        RuntimeError: the folder holds no NAME.json with tools.
    """
    tools = read_tools(folder)
    if not tools:
        raise RuntimeError(f"{folder} must hold NAME.json files with `tools`")
    count = dict(tokenizers()).get("cl100k")
    listed = [
        json.dumps({**tool.definition, "name": shown_name(tool)}, ensure_ascii=False, separators=(",", ":"))
        for tool in tools
    ]
    levels: list[tuple[str, list[str]]] = [
        ("as listed", listed),
        ("level 1", [level1(tool) for tool in tools]),
        ("level 2", [level2(tool) for tool in tools]),
        ("level 3", [level3(tool) for tool in tools]),
    ]
    heads = (
        "what",
        "characters: median",
        "90 %",
        "longest",
        "tokens: mean",
        "median",
        "90 %",
        "largest",
        "estimate: sum, 90 %",
    )
    rows = [[name, *_row(texts, count or estimate)] for name, texts in levels]
    named = "cl100k" if count else "estimated; for cl100k, have `tiktoken` and its file at hand"
    words = [first_sentence(tool.definition) for tool in tools]
    useless = [tool.name for tool, said in zip(tools, words, strict=True) if _useless(tool, said)]
    parts = [
        str(Table(f"{len(tools)} tools, tokens: {named}", heads, rows)),
        f"Words of level 1, columns: median {_at([columns(w) for w in words], 0.5)}, most {max(map(columns, words))}; "
        f"cut off: {sum(w.endswith('…') for w in words) / len(words):.1%}; "
        f"empty or no more than the name: {len(useless) / len(words):.1%} {' '.join(useless[:_WORST])}\n",
        *(_worst(name, texts, tools, count or estimate) for name, texts in levels[1:]),
        _task(tools, listed, count or estimate),
    ]
    return "\n".join(parts)


def _task(tools: Sequence[ToolRecord], listed: Sequence[str], count: Count) -> str:
    """Return the token cost of a host that is listed every tool, and of one that searches, reads and calls."""
    index = SearchIndex.of((server, server, tuple(found)) for server, found in groupby(tools, lambda tool: tool.server))
    tools_of_ours = load_meta_tools()
    meta = [render(tools_of_ours[name].record, "canonical").decode() for name in META_TOOLS]
    searches, reads, hits = [], [], 0
    for query in _QUESTIONS:
        found = [hit.tool for hit in index.search(query, lambda tool: True, _LOOKED_AT)]
        hits += bool(found)
        searches.append(count(query) + count(answer(found, 1, level1, _SHOWN, None)))
        reads.append(count(answer(found[:1], 3, level3, 1, None)))
    around = count('{"name":"github.create_issue","arguments":{}}')
    whole, fixed = sum(map(count, listed)), sum(map(count, meta))
    task = round(mean(searches) + mean(reads) + around)
    rows = [
        ["`expose: all`: the whole list", f"{whole:,}"],
        ["`expose: search`: the list", f"{fixed:,}"],
        [f"one `search_tools`: {_SHOWN} lines, mean of {len(_QUESTIONS)} questions", f"{mean(searches):.0f}"],
        ["one `describe_tools` of the first of them", f"{mean(reads):.0f}"],
        ["what `call_tool` adds to the arguments", f"{around}"],
        ["a task: search, read, call", f"{task:,}"],
        ["the list and one task, of the whole list", f"{(fixed + task) / whole:.2%}"],
    ]
    return str(Table("What a task costs, tokens", ("what", "tokens"), rows))


def read_tools(folder: Path) -> list[ToolRecord]:
    """Return the tools of each NAME.json of a folder, as they are exposed."""
    found: list[ToolRecord] = []
    for path in sorted(folder.glob("*.json")):
        definitions = json.loads(path.read_text(encoding="utf-8")).get("tools", [])
        server = ServerConfig(id=path.stem, key=path.stem, prefix=path.stem, type="stdio", command="none")
        found += validate_tools(server, definitions, ambiguous=False, name_limit=64)[0]
    return found


def tokenizers() -> list[tuple[str, Count]]:
    """Return cl100k and o200k, those that this interpreter has without asking the network."""
    found: list[tuple[str, Count]] = []
    for name in ("cl100k", "o200k"):
        try:
            if "TIKTOKEN_CACHE_DIR" not in os.environ:
                # litellm ships the files.
                importlib.import_module("litellm")
            encoding: Any = importlib.import_module("tiktoken").get_encoding(f"{name}_base")
        except (ImportError, OSError):
            continue
        found.append((name, _counter(encoding)))
    return found


def _counter(encoding: Any) -> Count:
    return lambda text: len(encoding.encode(text, disallowed_special=()))


def _row(texts: Sequence[str], count: Count) -> list[str]:
    sizes, tokens = [len(text) for text in texts], [count(text) for text in texts]
    off = sum(map(estimate, texts)) / sum(tokens) - 1
    each = sorted(abs(estimate(text) / max(1, known) - 1) for text, known in zip(texts, tokens, strict=True))
    figures = [_at(sizes, 0.5), _at(sizes, 0.9), max(sizes), round(mean(tokens)), _at(tokens, 0.5), _at(tokens, 0.9)]
    return [*(f"{figure:,}" for figure in figures), f"{max(tokens):,}", f"{off:+.1%}, {each[int(len(each) * 0.9)]:.0%}"]


def _at(values: Sequence[int], share: float) -> int:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def _useless(tool: ToolRecord, said: str) -> bool:
    return set(words_of(said)) <= {*words_of(tool.own_name), "a", "an", "the"} and len(said.split()) < 3


def _worst(level: str, texts: Sequence[str], tools: Sequence[ToolRecord], count: Count) -> str:
    largest = sorted(zip(map(count, texts), (tool.name for tool in tools), strict=True), reverse=True)[:_WORST]
    return f"Largest at {level}: " + ", ".join(f"{name} {tokens:,}" for tokens, name in largest) + "\n"
