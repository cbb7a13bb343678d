"""Names of arguments that some servers take for another: `Limit` or `LIMIT` for `limit`, `maxItems` for `max_items`,
and names that differ by white space, by characters that cannot be seen, or by their form in Unicode (NFKC).

A schema says nothing of them: a rule that tightens `limit` would not hold for a server that reads `Limit` as the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from unicodedata import normalize

from aggregator.domain.text.caseless import caseless
from aggregator.domain.text.invisible import folded_name
from aggregator.schemas.declared_names import declared_names
from aggregator.schemas.fault import Fault, step

# Values that may be examined on the event loop.
AT_ONCE: Final = 1_000

Schema = Mapping[str, Any]


def look_alikes(rules: Sequence[Schema], own: Schema, given: Any, most: int | None = None) -> tuple[Fault, ...] | None:
    """Return faults for names in `given` that resemble a name in `rules` that the tool's `own` schema lacks.

    None if there are more than `most` values to examine.
    """
    ruled = {name for rule in rules for name in declared_names(rule)}
    by_plain_name = {_plain(name): name for name in ruled}
    found = []
    stack: list[tuple[str, Any]] = [("", given)]
    seen = 0
    while stack:
        at, value = stack.pop()
        if not isinstance(value, dict | list):
            continue
        seen += len(value)
        if most is not None and seen > most:
            return None
        if isinstance(value, list):
            stack += ((step(at, number), item) for number, item in enumerate(value))
            continue
        for name, item in value.items():
            stack.append((step(at, name), item))
            if name not in ruled and (other := by_plain_name.get(_plain(name))) is not None:
                found.append((name, Fault(step(at, name), f"the name {other!r}", f"{name!a}", "properties")))
    if not found:
        return ()
    declared = set(declared_names(own))
    return tuple(fault for name, fault in found if name not in declared)


def _plain(name: str) -> str:
    seen = normalize("NFKC", folded_name(name))
    return "".join(caseless(seen).split()).replace("_", "").replace("-", "")
