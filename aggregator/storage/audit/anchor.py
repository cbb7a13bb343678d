"""Anchors: lines that note a row of the audit log elsewhere, so that a log that was cut or made anew shows."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple

from aggregator.storage.audit.chain import Head

_LINE: Final = re.compile(r"\S+ ([1-9][0-9]{0,17}) ([0-9a-f]{64})(?: chain ([1-9][0-9]{0,8}))?", re.ASCII)


class Anchor(NamedTuple):
    """A row that was noted, and the chain in which it stands."""

    seq: int
    digest: str
    chain: int = 0


def anchor_line(head: Head, now: float, chain: int = 0) -> str:
    """Return a line about the newest row of a chain: when it was noted, its number, its digest and its chain."""
    line = f"{datetime.fromtimestamp(now, UTC).isoformat(timespec='seconds')} {head.seq} {head.digest}"
    return f"{line} chain {chain}" if chain else line


def anchors_in(lines: Iterable[str]) -> list[Anchor]:
    """Return the rows that these lines note. Empty lines and those that begin with `#` say nothing.

    Raises:
        ValueError: a line is none of ours, or there is none at all.
    """
    found = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        noted = _LINE.fullmatch(text)
        if noted is None:
            raise ValueError(f"line {number} is no line of `aggregator audit anchor`")
        found.append(Anchor(int(noted[1]), noted[2], int(noted[3] or 0)))
    if not found:
        raise ValueError("there is no line of `aggregator audit anchor` in it")
    return found
