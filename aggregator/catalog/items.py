"""Validate an upstream's resources, templates, prompts and skills, and give them names and URIs of our own.

Law: a definition is passed on as it came but for that one field, invisible characters and members of a wrong type; a
definition that cannot be shown costs itself only. In a skill no character is changed: hosts compare it with its files.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from aggregator.catalog.invisible_characters import DefinitionCleaner
from aggregator.catalog.member_types import in_words, typed
from aggregator.catalog.templates import leads_anywhere
from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.slices import Steps, at_once
from aggregator.domain.names import Style, folded, listed_canonical, listed_compatible
from aggregator.domain.records import ItemKind, ItemRecord
from aggregator.domain.schema_walk import deeper_than
from aggregator.domain.uris.exposed import with_server, wrapped
from aggregator.domain.uris.spellings import LONGEST, is_plain, resolved
from aggregator.skills.catalog import skill_fault
from aggregator.wire.codec import encode_or_none

# The naming field of each kind of item (S/schema: Resource, ResourceTemplate, Prompt; SEP-2640: Skill).
NAMED_BY: Final[Mapping[ItemKind, str]] = {
    "resource": "uri",
    "template": "uriTemplate",
    "prompt": "name",
    "skill": "uri",
}
_SHOWN: Final = 80
_DEPTH_LIMIT: Final = 200


def items(
    server: ServerConfig, kind: ItemKind, definitions: Iterable[Any], *, ambiguous: bool, name_limit: int
) -> tuple[tuple[ItemRecord, ...], list[str]]:
    """Return the items of one kind in the server's order, and a warning for each item that was left out.

    `ambiguous` and `name_limit` apply to the names of prompts, which are built like tool names.
    """
    return at_once(item_steps(server, kind, definitions, ambiguous=ambiguous, name_limit=name_limit))


def item_steps(
    server: ServerConfig, kind: ItemKind, definitions: Iterable[Any], *, ambiguous: bool, name_limit: int
) -> Steps[tuple[tuple[ItemRecord, ...], list[str]]]:
    """Return the result of `items`, one definition in a step."""
    key = NAMED_BY[kind]
    records: dict[str, ItemRecord] = {}
    seen: set[str] = set()
    warnings: list[str] = []
    taken: set[str] = set()
    known: list[tuple[Any, Any]] = []
    names: set[str] = set()
    readings: Counter[str] = Counter()
    for one in definitions:
        yield
        own = one.get(key) if isinstance(one, dict) else None
        known.append((own, one))
        if isinstance(own, str) and own not in names:
            names.add(own)
            readings[folded(own)] += 1
    cleaning = DefinitionCleaner(server, kind)
    for own, definition in known:
        yield
        if not isinstance(own, str) or not own:
            warnings.append(f"{server.id}: a {kind} is left out: it has no {key}")
            continue
        text = encode_or_none(definition)
        if own in seen:
            # Also if the first one cannot be shown: pins compare the first one.
            problem: str | None = "the server lists it twice; the first one counts"
        elif deeper_than(definition, _DEPTH_LIMIT):
            problem = f"it is nested more than {_DEPTH_LIMIT} levels deep"
        else:
            problem = cleaning.fault(own, definition, text)
            if problem is None and kind == "skill":
                problem = skill_fault(definition, keeps_unseen=server.invisible_characters == "keep")
        seen.add(own)
        listed: dict[Style, str]
        if kind == "prompt":
            listed = _names(server, own, ambiguous or ("." in own and readings[folded(own)] > 1), name_limit)
        else:
            exposed = (with_server if kind == "skill" else wrapped)(server.prefix, own)
            listed = {"canonical": exposed, "compatible": exposed}
        if problem is None and not taken.isdisjoint(listed.values()):
            problem = "its shortened name is another's"
        if problem is not None:
            warnings.append(f"{server.id}: {kind} {own!r:.{_SHOWN}} is left out: {problem}")
            continue
        taken.update(listed.values())
        if kind != "skill":
            definition, faults = typed(kind, own, cleaning.clean(own, definition, text))
            if faults:
                warnings.append(f"{server.id}: {kind} {own!r:.{_SHOWN}} was mended: {in_words(faults)}")
        record = ItemRecord(kind, server.id, server.prefix, own, definition, listed)
        if kind != "prompt" and not is_plain(own):
            takes_all = kind == "template" and not server.trusted and leads_anywhere(own)
            record = replace(record, resolved=resolved(own) if len(own) <= LONGEST else "", takes_all=takes_all)
        records[own] = record
    return tuple(records.values()), warnings + cleaning.warnings()


def _names(server: ServerConfig, own: str, ambiguous: bool, name_limit: int) -> dict[Style, str]:
    return {
        "canonical": listed_canonical(server.prefix, own, ambiguous=ambiguous),
        "compatible": listed_compatible(server.prefix, own, name_limit),
    }
