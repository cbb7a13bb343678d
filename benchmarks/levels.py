"""How good the lines of level 1 are: what says nothing, repeats a sibling, or is no sentence, over real servers' tools.

The rules here are a judge of their own: nothing of how lines are made is used, so that a fault there shows here.
"""

import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Final

from aggregator.catalog.describe.levels import level1, shown_name
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.tokens import estimate
from benchmarks.report import Table
from benchmarks.tokens import read_tools, tokenizers

_SHOWN: Final = 12
_KINDS: Final = ("says nothing", "as a sibling", "no sentence")

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_FILLER: Final = frozenset(("a", "an", "the", "of", "for", "to", "in", "on", "by", "with", "and", "or", "from", "tool"))
_OPEN_END: Final = re.compile(
    r"\b(?:a|an|the|and|or|of|in|on|at|to|for|from|with|by|as|is|are|be|that|which|who|if|when|while|where|using|via"
    r"|into|its|your|their|this|these|any|all|such|like|including|e\.g\.?|i\.e\.?|etc|not|but|can|will|than|whether"
    r"|between|both|either|specific|specified|selected|provided|available in)$|[-–—:;,(\[{/&+]$",
    re.IGNORECASE,
)
_MARKUP: Final = re.compile(
    r"\*\*|`|\]\(|</?[a-z]+>|^#+\s|^\s*[-*•]\s|^\||\\n"
    r"|^(?:args?|arguments?|parameters?|returns?|note|important|warning|example)\s*[:：]",
    re.I,
)
_BANNER: Final = re.compile(
    r"(?:this|the) tool\b|tool (?:for|to)\b|deprecated\b(?!: use)|you (?:are|must|should|can)\b|always\b|never\b"
    r"|do not\b|if you\b"
    r"|when (?:you|the user)\b|use this\b|call this\b|start here|please\b|user wants",
    re.IGNORECASE,
)
_ARTICLE: Final = re.compile(r"\ban (?=[bcdfgjkpqtvwyz][a-z]{2})|\ba (?=[aio][a-z]{2})", re.IGNORECASE)
_AN_HOUR: Final = re.compile(r"\b(?:an (?:hour|honest|heir)|a (?:one|once))", re.IGNORECASE)


def measure(folder: Path) -> str:
    """Return the report, over all servers, and over the two halves by a digest of their names.

    Raises:
        RuntimeError: the folder holds no NAME.json with tools.
    """
    tools = read_tools(folder)
    if not tools:
        raise RuntimeError(f"{folder} must hold NAME.json files with `tools`")
    faults = dict(judge(tools))
    counts = [("estimate", estimate), *tokenizers()]
    rows = []
    for name, part in (
        ("all", tools),
        ("one half of the servers", [tool for tool in tools if _half(tool) == 0]),
        ("the other half", [tool for tool in tools if _half(tool) == 1]),
    ):
        lines = [level1(tool) for tool in part]
        bad = [fault for tool in part for fault in faults.get(tool.name, ())[:1]]
        kinds = [sum(fault == kind for fault in bad) for kind in _KINDS]
        share = f"{len(bad) / max(1, len(part)):.2%}"
        tokens = [f"{mean(map(count, lines)):.1f}" for _, count in counts]
        rows.append([name, str(len(part)), *map(str, kinds), share, *tokens, _cut(lines)])
    heads = (
        "servers",
        "tools",
        "says nothing",
        "as a sibling",
        "no sentence",
        "bad",
        *(n for n, _ in counts),
        "cut off",
    )
    shown = [f"  {kinds[0]}: {name}" for name, kinds in list(faults.items())[:_SHOWN]]
    return "\n".join([str(Table("Lines of level 1; tokens: mean of a line", heads, rows)), *shown])


def judge(tools: Sequence[ToolRecord]) -> Iterator[tuple[str, list[str]]]:
    """Yield the tools whose lines are bad, with the kinds of faults."""
    said = {tool.name: level1(tool).removeprefix(f"{shown_name(tool)}").removeprefix(": ") for tool in tools}
    same: defaultdict[tuple[str, str], int] = defaultdict(int)
    for tool in tools:
        same[tool.server, _plain(said[tool.name])] += 1
    for tool in tools:
        words = said[tool.name]
        faults = []
        if says_nothing(tool.own_name, words):
            faults.append("says nothing")
        if same[tool.server, _plain(words)] > 1:
            faults.append("as a sibling")
        if is_no_sentence(words):
            faults.append("no sentence")
        if faults:
            yield tool.name, faults


def says_nothing(name: str, words: str) -> bool:
    """Tell whether a line holds nothing but its name, a banner, or a word or two."""
    if _BANNER.match(words):
        return True
    content = [word.lower() for word in _WORD.findall(words)]
    if any(ord(character) > 0x2E7F for character in words):
        return len(words) < 4
    new = {word.rstrip("s") for word in content} - {word.lower().rstrip("s") for word in _WORD.findall(name)} - _FILLER
    return len(content) < 2 or (not new and len(content) < 4)


def is_no_sentence(words: str) -> bool:
    """Tell whether a line is cut within a phrase, has marks of Markdown, open brackets or a wrong article."""
    if not words.isprintable() or _MARKUP.search(words) or _OPEN_END.search(words):
        return True
    if words.endswith("…"):
        return True
    if any(words.count(left) != words.count(right) for left, right in ("()", "[]", "{}", "（）", "“”")):
        return True
    return words.count('"') % 2 == 1 or bool(_ARTICLE.search(words) and not _AN_HOUR.search(words))


def _plain(words: str) -> str:
    return " ".join(word.lower() for word in _WORD.findall(words) if word.lower() not in ("a", "an", "the", "new"))


def _half(tool: ToolRecord) -> int:
    return zlib.crc32(tool.server.encode()) % 2


def _cut(lines: Sequence[str]) -> str:
    return f"{sum(line.endswith('…') for line in lines) / max(1, len(lines)):.1%}"
