"""The names of members that a schema declares, at any depth, and other spellings of them: `dry_run` for `dryRun`."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from aggregator.domain.names import loosened
from aggregator.domain.schema_walk import positions

# Longer names are not compared.
LONGEST: Final = 200
# Values and undeclared names of one call that are looked at.
_VALUES: Final = 2_000
_UNDECLARED: Final = 100
_HOLDERS: Final = frozenset({dict, list})


def declared_names(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names that any part of a schema has members for, or requires."""
    for _, node in positions(schema):
        for keyword in ("properties", "dependentSchemas", "required"):
            names = node.get(keyword)
            if isinstance(names, Mapping | list):
                yield from (name for name in names if isinstance(name, str))


class DeclaredNames:
    """All names that one schema declares. Immutable."""

    __slots__ = ("_forms", "_names")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._names = frozenset(declared_names(schema))
        self._forms = frozenset(loosened(name) for name in self._names if len(name) <= LONGEST)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def has_other_spelling(self, given: dict[str, Any] | list[Any]) -> bool:
        """Tell whether a name in the arguments, at any depth, is declared nowhere and may be another spelling of one
        that is.

        True if there are too many undeclared names to compare; of large arguments the first levels are read.
        """
        if not self._forms:
            return False
        if type(given) is dict and self._names.issuperset(given) and _HOLDERS.isdisjoint(map(type, given.values())):
            # Most arguments: declared members, and nothing inside them.
            return False
        level: Collection[Any] = (given,)
        values = 0
        found: set[str] = set()
        while level:
            inside: list[Any] = []
            for value in level:
                values += len(value)
                if values > _VALUES:
                    inside = []
                    break
                if type(value) is dict:
                    if not self._names.issuperset(value):
                        found.update(value)
                    value = value.values()
                inside += [part for part in value if type(part) in _HOLDERS]
            level = inside
        if not found:
            return False
        undeclared = found - self._names
        return len(undeclared) > _UNDECLARED or any(map(self._is_spelt_otherwise, undeclared))

    def _is_spelt_otherwise(self, name: str) -> bool:
        return len(name) <= LONGEST and loosened(name.strip()) in self._forms
