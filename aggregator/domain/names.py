"""Exposed names: `server.tool` and its spellings. Each is a pure function of (prefix, tool), never of who is connected.

Rule 1: no two tools share a listed name, also when a host reads `.` as `_`.
Rule 2: every spelling a host may send leads back by a map, never by parsing alone.
"""

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, Literal

from aggregator.domain.text.caseless import caseless

Style = Literal["canonical", "compatible"]

# S/server/tools, Tool Names: 1-128 characters of this set.
CANONICAL_LIMIT: Final = 128
# Claude Desktop, claude.ai and the Anthropic and OpenAI APIs take 64; hosts put `mcp__aggregator__` in front.
DEFAULT_NAME_LIMIT: Final = 47

_NOT_CANONICAL: Final = re.compile(r"[^A-Za-z0-9_.-]")
_NOT_COMPATIBLE: Final = re.compile(r"[^A-Za-z0-9_-]")
# A digit and seven letters or digits: what natural names hardly ever end in. Those that do get a digest too, so that
# no tool can take the name another has by its digest.
_DIGEST_LENGTH: Final = 8
_DIGEST_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"
_LIKE_A_DIGEST: Final = re.compile(r"[._][0-9][a-z2-7]{7}$")
# Spellings of the separator that calls may use, the canonical one first.
_SEPARATORS: Final = (".", "__", "/", ":")
# What hosts put in front of the names of an MCP server's tools, and what models add by themselves.
_HOST_PREFIX: Final = re.compile(r"(?:functions\.)?(?:mcp(?:__|[./:]))?(?:aggregator(?:__|[./:]))?", re.IGNORECASE)
_BETWEEN_WORDS: Final = re.compile(r"[\s._/:-]+")
_SIGNS_AND_WORDS: Final = re.compile(r"([\s._/:-]+)|(?<=[a-z0-9])(?=[A-Z])")


def canonical(prefix: str, tool: str) -> str:
    """Return `server.tool`: the id used in policies, meta tools, logs and the audit. Any tool name, any length."""
    return f"{prefix}.{tool}" if prefix else tool


def folded(name: str) -> str:
    """Return the name as hosts see it that read `.` as `_` (Claude Code, Codex, VS Code)."""
    return name.replace(".", "_")


def listed_canonical(prefix: str, tool: str, *, ambiguous: bool = False) -> str:
    """Return `server.tool` as listed on the HTTP and SSE frontends; a digest marks a name that cannot be listed
    unchanged.

    `ambiguous` says that another configured name reads the same once `.` becomes `_`.
    """
    name = canonical(prefix, tool)
    clean = _NOT_CANONICAL.sub("_", name)
    if clean == name and len(name) <= CANONICAL_LIMIT and not ambiguous and not _LIKE_A_DIGEST.search(name):
        return name
    return _with_digest(clean, prefix, tool, CANONICAL_LIMIT)


def listed_compatible(prefix: str, tool: str, limit: int = DEFAULT_NAME_LIMIT) -> str:
    """Return `server__tool` in `[A-Za-z0-9_-]`, at most `limit` characters; a digest tells apart what would be alike.

    The plain form is used only when its first `__` is surely ours: then it reads back in one way.
    """
    plain = f"{prefix}__{tool}" if prefix else tool
    clean = _NOT_COMPATIBLE.sub("_", plain)
    reads_back = "__" not in prefix and not prefix.endswith("_")
    if clean == plain and len(plain) <= limit and reads_back and not _LIKE_A_DIGEST.search(plain):
        return plain
    return _with_digest(clean, prefix, tool, limit)


def shadowed(prefixes: Iterable[str]) -> frozenset[str]:
    """The prefixes whose names could equal another's when `.` is read as `_`: `a_b` beside `a` (`a.b_c`, `a_b.c`)."""
    known = set(prefixes)
    return frozenset(p for p in known if any(p[:at] in known for at, char in enumerate(p) if char == "_"))


def reads_as_anothers(name: str, prefixes: Iterable[str]) -> bool:
    """Tell whether a name without a prefix could be read as one of a server with one of these prefixes."""
    known = {prefix for prefix in prefixes if prefix}
    plain = folded(name)
    return any(prefix in known for prefix, _ in spellings(name)) or any(plain.startswith(f"{p}_") for p in known)


def spellings(name: str) -> list[tuple[str, str]]:
    """Return the (prefix, tool) pairs a called name may stand for, likeliest first."""
    pairs = []
    for separator in _SEPARATORS:
        prefix, found, tool = name.partition(separator)
        if found and prefix and tool:
            pairs.append((prefix, tool))
    return pairs


def without_host_prefix(name: str) -> str:
    """Return the name without `mcp__aggregator__`, `mcp__`, `aggregator__` or `functions.` before it, in any case; also
    with other signs for `__`.
    """
    found = _HOST_PREFIX.match(name)
    return name[found.end() :] if found is not None else name


def loosened(name: str) -> str:
    """Return one form of all names that differ in case and in the signs between words only; it may be empty."""
    return _BETWEEN_WORDS.sub("", caseless(name))


def keeps_parts(written: str, name: str) -> bool:
    """Tell whether a name with the same loosened form has the end of a word wherever `written` has a separator.

    So `data.base_drop` does not match `database.drop`, while `data_base.drop` does.
    """
    return _separated(written) <= _ends_of_words(name).keys()


def keep_same_parts(one: str, other: str) -> bool:
    """Tell whether two names with the same loosened form are separated into the same parts, or one into parts of them.

    So `a.b_c` is none of `a_b.c`: behind another aggregator these are tools of two servers.
    """
    here, there = _separated(one), _separated(other)
    return (here <= there or there <= here) and keeps_parts(one, other) and keeps_parts(other, one)


def _separated(name: str) -> set[int]:
    """Return the ends of words in the loosened form of a name at which a separator stands."""
    return {at for at, sign in _ends_of_words(name).items() if any(one in sign for one in _SEPARATORS)}


def _ends_of_words(name: str) -> dict[int, str]:
    """Return the ends of the words in the loosened form of a name, with the signs that stand there."""
    parts = _SIGNS_AND_WORDS.split(name)
    ends, at = {0: ""}, 0
    for word, sign in zip(parts[::2], [*parts[1::2], ""], strict=True):
        at += len(caseless(word))
        ends[at] = sign or ""
    return ends


def _with_digest(clean: str, prefix: str, tool: str, limit: int) -> str:
    # The NUL keeps (a, bc) and (ab, c) apart.
    raw = int.from_bytes(blake2b(f"{prefix}\0{tool}".encode("utf-8", "surrogatepass"), digest_size=5).digest(), "big")
    letters = "".join(_DIGEST_ALPHABET[(raw >> (5 * at)) & 31] for at in range(_DIGEST_LENGTH - 1))
    return f"{clean[: limit - _DIGEST_LENGTH - 1]}_{(raw >> 35) % 10}{letters}"
