"""Pages of metrics merged into one: counts are added up, each name has one header.

Rule: counters only ever grow, so the counters of an ended process still count, and its gauges do not.
"""

from collections.abc import Callable, Iterable
from typing import Final

# Gauges that are no amounts: a sum would say nothing.
_TAKEN: Final[dict[bytes, Callable[..., float]]] = {
    b"aggregator_build_info": max,
    b"aggregator_upstream_up": min,
    b"aggregator_upstream_state": max,
    b"aggregator_upstream_since_seconds": max,
    b"aggregator_upstream_answers": min,
    b"aggregator_upstream_recent_seconds": max,
    b"aggregator_upstream_recent_failures": max,
    b"aggregator_catalog_tools": max,
    b"aggregator_list_tokens": max,
}


class _Family:
    __slots__ = ("header", "kind", "name", "samples")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.kind = b""
        self.header: list[bytes] = []
        self.samples: dict[bytes, float] = {}


def merged(pages: Iterable[bytes], gone: Iterable[bytes] = ()) -> bytes:
    """Return one page. From the pages in `gone` only counters and histograms are included."""
    families: dict[bytes, _Family] = {}
    for page in pages:
        _add(families, page, only_counted=False)
    for page in gone:
        _add(families, page, only_counted=True)
    lines = []
    for family in families.values():
        if family.samples:
            lines += family.header
            lines += [b"%b %b" % (name, repr(value).encode()) for name, value in family.samples.items()]
    return b"".join(b"%b\n" % line for line in lines)


def counted(page: bytes) -> bytes:
    """Return the counters and histograms of a page."""
    return merged((), (page,))


def _add(families: dict[bytes, _Family], page: bytes, *, only_counted: bool) -> None:
    family, headed = _Family(b""), False
    for line in page.splitlines():
        if line.startswith(b"# "):
            _, word, name, rest = line.split(b" ", 3)
            if name != family.name:
                headed = name in families
                family = families.setdefault(name, _Family(name))
            if not headed:
                family.header.append(line)
            if word == b"TYPE":
                family.kind = rest
            continue
        if only_counted and family.kind == b"gauge":
            continue
        name, _, text = line.rpartition(b" ")
        value = int(text) if text.isdigit() else float(text)
        before = family.samples.get(name)
        if before is None:
            family.samples[name] = value
        elif family.kind == b"gauge" and family.name in _TAKEN:
            family.samples[name] = _TAKEN[family.name](before, value)
        else:
            family.samples[name] = before + value
