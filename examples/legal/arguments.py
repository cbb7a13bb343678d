"""Checking what a caller asks for. Law: every refusal says what was wrong, what would be right, and near misses."""

import difflib
from collections.abc import Iterable

from mcp.server.mcpserver.exceptions import ToolError

from examples.legal.texts import fold, runs

MAX_LIMIT = 20
MAX_QUERY = 200


def checked_query(query: str) -> str:
    """The query, trimmed. Raises ToolError when it holds nothing to search for, or too much."""
    trimmed = query.strip()
    if not runs(trimmed):
        raise ToolError("query 里没有可检索的字词：请给出一个以上的关键词，例如「违约金」或「试用期 工资」。")
    if len(trimmed) > MAX_QUERY:
        raise ToolError(f"query 有 {len(trimmed)} 个字，最多 {MAX_QUERY} 个：请只保留关键词，用空格隔开。")
    return trimmed


def checked_limit(limit: int) -> int:
    """The limit. Raises ToolError when out of range."""
    if not 1 <= limit <= MAX_LIMIT:
        raise ToolError(f"limit 为 {limit}，超出范围：请用 1 到 {MAX_LIMIT} 之间的整数。")
    return limit


def chosen(parameter: str, wanted: str, known: Iterable[tuple[str, ...]]) -> str:
    """The first name of the one entry of `known` that `wanted` names: exactly, or as a part only it holds.

    Raises ToolError with near misses and all choices otherwise.
    """
    entries = list(known)
    plain = _plain(wanted)
    exact = [names[0] for names in entries if plain in map(_plain, names)]
    if exact:
        return exact[0]
    holding = [names[0] for names in entries if plain and any(plain in _plain(name) for name in names)]
    if len(holding) == 1:
        return holding[0]
    near = holding or _near(plain, entries)
    hint = f"是否指：{'、'.join(near)}？" if near else ""
    choices = "、".join("／".join(dict.fromkeys(names)) for names in entries)
    raise ToolError(f"{parameter} 没有「{wanted}」。{hint}可选：{choices}。")


def _plain(name: str) -> str:
    return fold(name).strip().strip("《》 ").replace("_", "-")


def _near(plain: str, entries: list[tuple[str, ...]]) -> list[str]:
    owner = {_plain(name): names[0] for names in entries for name in names}
    return list(dict.fromkeys(owner[name] for name in difflib.get_close_matches(plain, owner, n=3, cutoff=0.4)))
