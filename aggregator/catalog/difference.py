"""Compare two tool lists of one server. This file decides; it awaits nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class ToolChanges:
    """The tools added, removed and changed between two lists of one server.

    All three map own names to digests of definitions; `changed` to the old digest and the new one.
    """

    added: Mapping[str, str]
    removed: Mapping[str, str]
    changed: Mapping[str, tuple[str, str]]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def __str__(self) -> str:
        kinds = (("added", self.added), ("removed", self.removed), ("changed", self.changed))
        return "; ".join(f"{kind} {_names(tools)}" for kind, tools in kinds if tools)


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> ToolChanges:
    """Compare two lists, each given as the digests of its tools by own name."""
    common = before.keys() & after.keys()
    return ToolChanges(
        {name: digest for name, digest in after.items() if name not in common},
        {name: digest for name, digest in before.items() if name not in common},
        {name: (before[name], digest) for name, digest in after.items() if name in common and before[name] != digest},
    )


def _names(names: Iterable[str]) -> str:
    listed = [f"{name:.80}" for name in names]
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return ", ".join(listed[:_NAMED]) + more
