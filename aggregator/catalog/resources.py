"""The snapshot of resources, templates, prompts and skills: their order, and which of them a URI or name means. Frozen.

Rule 1: a URI that stays as it is (`https:`) belongs to the first server that has it; another server's is listed as
`mcp://server/https://...`. Rule 2: a server's own URI, as it may stand in a text, means that server's resource if only
one server has it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from aggregator.catalog.items import NAMED_BY
from aggregator.catalog.names import NameLookup
from aggregator.catalog.pages import Pages
from aggregator.catalog.templates import fits
from aggregator.domain.bounds.slices import Steps, at_once
from aggregator.domain.records import ItemKind, ItemRecord
from aggregator.domain.uris.exposed import aliased, unwrapped
from aggregator.domain.uris.links import in_skill
from aggregator.domain.uris.spellings import is_plain, resolved
from aggregator.skills.catalog import manifest
from aggregator.skills.uris import directories, skill_name

# Comparing one takes a microsecond: a miss must not delay other requests.
_TEMPLATES_TRIED: Final = 2_000


class ItemCatalog:
    """Resources, templates, prompts and skills, in config order of servers, then in each server's own order."""

    def __init__(self, items: Iterable[ItemRecord] = ()) -> None:
        at_once(self._fill(items))

    def _fill(self, items: Iterable[ItemRecord]) -> Steps[None]:
        kept: list[ItemRecord] = []
        by_kind: dict[ItemKind, list[ItemRecord]] = {kind: [] for kind in NAMED_BY}
        taken: dict[ItemKind, set[str]] = {kind: set() for kind in NAMED_BY}
        self._listed: set[tuple[str, str]] = set()
        self._respelled: dict[tuple[str, str], tuple[str, ...]] = {}
        for item in items:
            yield
            kept.append(item)
            shown = item if item.kind in ("prompt", "skill") else _distinct(item, taken[item.kind])
            if shown is not None:
                by_kind[item.kind].append(shown)
            if item.kind != "prompt":
                self._listed.add((item.server, item.own_name))
            if item.resolved:
                self._respell(item.server, item.resolved, item.own_name)
        self.items = tuple(kept)
        self.resources = Pages(by_kind["resource"], NAMED_BY["resource"])
        self.templates = Pages(by_kind["template"], NAMED_BY["template"])
        self.prompts = Pages(by_kind["prompt"], NAMED_BY["prompt"])
        self.skills = Pages(by_kind["skill"], NAMED_BY["skill"], in_skill)
        yield from self._fill_skills()
        self._by_uri: dict[str, ItemRecord] = {}
        self._by_own: dict[str, ItemRecord | None] = {}
        for record in self.resources.records:
            yield
            self._by_uri[record.listed["canonical"]] = record
            self._by_own[record.own_name] = None if record.own_name in self._by_own else record
        self._by_template: dict[str, ItemRecord] = {}
        # All other templates name their server in the URI.
        self._open: list[ItemRecord] = []
        self._owning: list[ItemRecord] = []
        for record in self.templates.records:
            yield
            uri = record.listed["canonical"]
            self._by_template[uri] = record
            if not record.takes_all:
                self._owning.append(record)
                if unwrapped(uri) is None:
                    self._open.append(record)
        self._prompts: NameLookup[ItemRecord] = NameLookup()
        yield from self._prompts.add_steps(self.prompts.records)

    def _fill_skills(self) -> Steps[None]:
        self._skills: dict[str, ItemRecord] = {}
        self._skill_at: dict[tuple[str, str], ItemRecord] = {}
        self._skill_called: dict[str, ItemRecord] = {}
        self._own_skills: dict[str, ItemRecord | None] = {}
        for record in self.skills.records:
            yield
            self._skills[record.listed["canonical"]] = record
            self._own_skills[record.own_name] = None if record.own_name in self._own_skills else record
            name = skill_name(record.own_name)
            assert name is not None, "any other skill is left out"
            self._skill_at[record.server, name] = record
            self._skill_called[f"{record.prefix or record.server}.{name}"] = record
            for own in manifest(record.definition) or ():
                if not is_plain(own):
                    # A URI with only one spelling is equal whether listed or not.
                    self._listed.add((record.server, own))
                    self._respell(record.server, resolved(own), own)

    def _respell(self, server: str, whole: str, own: str) -> None:
        known = self._respelled.get((server, whole), ())
        if own not in known:
            self._respelled[server, whole] = (*known, own)

    def __repr__(self) -> str:
        counts = f"{len(self.resources)} resources, {len(self.templates)} templates, {len(self.prompts)} prompts"
        return f"<Offer of {counts}, {len(self.skills)} skills>"

    def listed(self, uri: str) -> ItemRecord | None:
        """Return the resource or the template that is listed under this very URI."""
        return self._by_uri.get(uri) or self._by_template.get(uri)

    def lists(self, server: str, own: str) -> bool:
        """Tell whether the server lists this very URI or template of its own."""
        return (server, own) in self._listed

    def other_spellings(self, server: str, resolved: str) -> tuple[str, ...]:
        """Return the URIs that the server lists in other spellings than `resolved`, of `domain.uris.spellings`."""
        return self._respelled.get((server, resolved), ())

    def skill(self, uri: str) -> ItemRecord | None:
        """Return the skill whose SKILL.md is listed under this very URI."""
        return self._skills.get(uri)

    def skill_named(self, server: str, name: str) -> ItemRecord | None:
        """Return the skill of a server by its name (`domain.uris.skills`)."""
        return self._skill_at.get((server, name))

    def skill_called(self, name: str) -> ItemRecord | None:
        """Return the skill of that full name, as `docs.git-workflow`."""
        return self._skill_called.get(name)

    def skills_around(self, server: str, uri: str) -> tuple[ItemRecord, ...]:
        """Return the skills of a server in whose directories its own URI lies, the outermost first."""
        if not self._skill_at:
            return ()
        found = (self._skill_at.get((server, name)) for name in directories(uri))
        return tuple(record for record in found if record is not None)

    def skill_names(self, server: str, uri: str) -> tuple[str, ...]:
        """Return the names of the skills of `skills_around`."""
        if not self._skill_at:
            return ()
        return tuple(name for name in directories(uri) if (server, name) in self._skill_at)

    @property
    def templates_without_server(self) -> int:
        """The number of templates that a URI without a server's name in it is compared with."""
        return min(len(self._open), _TEMPLATES_TRIED)

    def matching_template(self, uri: str) -> ItemRecord | None:
        """Return the first template without a server's name in it that the URI may come from."""
        tried = self._open[:_TEMPLATES_TRIED]
        return next((record for record in tried if fits(record.listed["canonical"], uri)), None)

    def sole_resource(self, uri: str) -> ItemRecord | None:
        """Return the only resource with this for its own URI."""
        return self._by_own.get(uri)

    def sole_skill(self, uri: str) -> ItemRecord | None:
        """Return the skill whose SKILL.md has this URI at its server, if exactly one skill does."""
        return self._own_skills.get(uri)

    def sole_match(self, uri: str) -> ItemRecord | None:
        """Return the only server's resource with this for its own URI, or the template that the URI may come from."""
        if uri in self._by_own:
            return self._by_own[uri]
        found = [record for record in self._owning[:_TEMPLATES_TRIED] if fits(record.own_name, uri)]
        return found[0] if len({record.server for record in found}) == 1 else None

    def prompt(self, name: str) -> Iterator[ItemRecord]:
        """Return the prompts that a name may mean, the likeliest first."""
        return self._prompts.candidates(name)


def item_catalog_steps(items: Iterable[ItemRecord]) -> Steps[ItemCatalog]:
    """Build the snapshot of these items, one in a step."""
    offer = ItemCatalog.__new__(ItemCatalog)
    yield from offer._fill(items)
    return offer


def _distinct(item: ItemRecord, taken: set[str]) -> ItemRecord | None:
    """Return the item under a URI that nothing else has, and add the URI to `taken`; None if there is none."""
    if item.listed["canonical"] in taken:
        if not item.prefix:
            return None
        alias = aliased(item.prefix, item.own_name)
        item = replace(item, listed={"canonical": alias, "compatible": alias}, rendered={})
    taken.add(item.listed["canonical"])
    return item
