"""An upstream's resources, templates and prompts -> records fit to show, under names and URIs of our own.

Law: a definition is passed on as it came but for that one field; what has none costs itself only.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from aggregator.config.model import ServerConfig
from aggregator.domain.names import Style, listed_canonical, listed_compatible
from aggregator.domain.records import ItemKind, ItemRecord
from aggregator.domain.uris import wrapped

# The field that names an item, by what it is (S/schema: Resource, ResourceTemplate, Prompt).
NAMED_BY: Final[Mapping[ItemKind, str]] = {"resource": "uri", "template": "uriTemplate", "prompt": "name"}
_SHOWN: Final = 80


def items(
    server: ServerConfig, kind: ItemKind, definitions: Iterable[Any], *, ambiguous: bool, name_limit: int
) -> tuple[tuple[ItemRecord, ...], list[str]]:
    """The items of one kind in the server's order, and a warning for each that was left out.

    `ambiguous` and `name_limit` are for the names of prompts, which are made like those of tools.
    """
    key = NAMED_BY[kind]
    records: dict[str, ItemRecord] = {}
    warnings: list[str] = []
    for definition in definitions:
        own = definition.get(key) if isinstance(definition, dict) else None
        if not isinstance(own, str) or not own:
            warnings.append(f"{server.id}: a {kind} is left out: it has no {key} ({definition!r:.{_SHOWN}})")
            continue
        if own in records:
            warnings.append(f"{server.id}: {kind} {own!r:.{_SHOWN}} is left out: the server lists it twice")
            continue
        listed: Mapping[Style, str]
        if kind == "prompt":
            listed = {
                "canonical": listed_canonical(server.prefix, own, ambiguous=ambiguous),
                "compatible": listed_compatible(server.prefix, own, name_limit),
            }
        else:
            exposed = wrapped(server.prefix, own)
            listed = {"canonical": exposed, "compatible": exposed}
        records[own] = ItemRecord(kind, server.id, server.prefix, own, definition, listed)
    return tuple(records.values()), warnings
