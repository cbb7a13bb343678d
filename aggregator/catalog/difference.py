"""What became of a server's tools between two of its lists. This file decides; it awaits nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class ToolChanges:
    """Tools by their own names, with the digests of their definitions; of `changed` ones the old and the new."""

    added: Mapping[str, str]
    removed: Mapping[str, str]
    changed: Mapping[str, tuple[str, str]]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def __str__(self) -> str:
        kinds = (("added", self.added), ("removed", self.removed), ("changed", self.changed))
        return "; ".join(f"{kind} {_names(tools)}" for kind, tools in kinds if tools)


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> ToolChanges:
    """From one list to the next, each as the digests of its tools by name."""
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
