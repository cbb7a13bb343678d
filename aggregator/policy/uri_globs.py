"""Other spellings of a pattern over URIs, so that a rule matches a resource in every spelling of either.

Law: wildcards stay unchanged; only the text around them is respelled.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import unquote

from aggregator.domain.uris.spellings import canonical, resolved

# Wildcards are characters of a private-use plane while the text is rewritten; no pattern may hold such.
_WILDCARD: Final = re.compile(r"\*|\?|\[!?\]?[^\]]*\]")
_FIRST: Final = 0xF0000
_SPECIAL: Final = re.compile(r"[*?\[]")
_SCHEME_AT_END: Final = re.compile(r"[A-Za-z0-9+-]*\Z", re.ASCII)


class Globs(NamedTuple):
    """The spellings of a pattern: as URIs are sent, without percent-escapes, and as `resolved` spells URIs."""

    canonical: str
    decoded: str
    resolved: str


def globs(glob: str) -> Globs:
    """Return the spellings of a pattern `server.uri`."""
    server, uri = _split(glob)
    wildcards: list[str] = []

    def marked(found: re.Match[str]) -> str:
        if _SPECIAL.sub(_bracketed, found[0][1:-1]) == found[0]:
            return found[0][1]
        wildcards.append(found[0])
        return chr(_FIRST + len(wildcards) - 1)

    plain = _WILDCARD.sub(marked, uri)

    def spelled(how: Callable[[str], str]) -> str:
        text = how(plain)
        parts = (
            wildcards[ord(c) - _FIRST] if _FIRST <= ord(c) < _FIRST + len(wildcards) else _SPECIAL.sub(_bracketed, c)
            for c in text
        )
        return server + "".join(parts)

    whole = spelled(resolved)
    if whole.endswith("*/") and uri.endswith("*"):
        # `resolved` took the host for complete; with the wildcard it may be longer, or a path may follow.
        whole = whole[:-1]
    return Globs(spelled(canonical), spelled(unquote), whole)


def skill_globs(glob: str) -> Globs:
    """Return the spellings of a pattern `server.skill` whose skill names are URIs without a scheme."""
    head, dot, name = glob.partition(".")
    if not dot or "://" in name or not name or _WILDCARD.match(name):
        return globs(glob) if "://" in name else Globs(glob, glob, glob)
    mark = f"{head}.skill://"
    found = globs(mark + name)
    return Globs(
        *(f"{head}.{one.removeprefix(mark).removesuffix('/')}" if one.startswith(mark) else glob for one in found)
    )


def _split(glob: str) -> tuple[str, str]:
    """Return the part that matches servers, with its dot, and the part that matches their URIs."""
    colon = glob.find(":")
    dot = glob.find(".", 0, colon if colon >= 0 else None)
    if dot >= 0:
        return glob[: dot + 1], glob[dot + 1 :]
    if colon < 0:
        return "", glob
    found = _SCHEME_AT_END.search(glob[:colon])
    assert found is not None, "an empty scheme is found everywhere"
    return glob[: found.start()], glob[found.start() :]


def _bracketed(found: re.Match[str]) -> str:
    return f"[{found[0]}]"
