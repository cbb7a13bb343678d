"""The playground of the policy: explained decisions, why an item is held, an agent's view, and trial edits of the
files.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from aggregator.catalog.pages import Pages
from aggregator.catalog.resources import ItemCatalog
from aggregator.catalog.templates import fits
from aggregator.domain.bounds.slices import Slices, Steps
from aggregator.domain.errors import OperatorError
from aggregator.domain.principal import LOCAL, Principal
from aggregator.domain.records import ItemRecord, ToolRecord
from aggregator.domain.text.tokens import estimate
from aggregator.domain.uris.spellings import canonical, fault, resolved
from aggregator.flow.decide.decide_flow import EarlierRead
from aggregator.gateway.calls.rate_limits import RateLimits
from aggregator.gateway.calls.validate import Checker
from aggregator.gateway.host import Host
from aggregator.gateway.host_lists import HostLists
from aggregator.gateway.meta.exposure import Exposure
from aggregator.gateway.playground.explained_call import ExplainedCall, explain_call, explain_item
from aggregator.gateway.views.current import CurrentCatalog, HeldItems
from aggregator.gateway.views.finder import Finder
from aggregator.gateway.views.instructions import instructions_about
from aggregator.gateway.views.views import View, Views
from aggregator.pins.gateway.state import HeldItem
from aggregator.policy.compare.edits import PolicyEdit, TriedEdit
from aggregator.policy.explain import earlier_reads
from aggregator.policy.full_names import parse_full_name, record_of
from aggregator.policy.live import LivePolicies
from aggregator.policy.patterns import Target
from aggregator.policy.rules import BUILT_IN_LABELS
from aggregator.skills.finder import SKILL, full_name
from aggregator.upstream.upstream import Upstream

_LONGEST_NAME: Final = 2_000
_MOST_EARLIER: Final = 20
# Trial edits running or waiting; each takes one of the few pages that are rendered at a time.
_MOST_WAITING: Final = 3


class Playground:
    """The explained policy. `live` is None without a folder for policy files."""

    def __init__(
        self,
        live: LivePolicies | None,
        upstreams: Mapping[str, Upstream],
        views: Views,
        current: CurrentCatalog,
        host_lists: HostLists,
        exposure: Exposure,
        finder: Finder,
        checker: Checker,
        rate_limits: RateLimits,
        slices: Slices,
    ) -> None:
        self._live = live
        self._upstreams = upstreams
        self._views = views
        self._current = current
        self._host_lists = host_lists
        self._exposure = exposure
        self._finder = finder
        self._checker = checker
        self._rate_limits = rate_limits
        self._slices = slices
        # One edit at a time: each takes a thread, which shares the interpreter with the calls.
        self._turn = asyncio.Lock()
        self._waiting = 0

    def agents(self, wanted: str = "", most: int = 50) -> list[str]:
        """Return the agents of the policy whose names hold `wanted`, those first that begin with it."""
        rulebook = self._views.rulebook
        names = rulebook.agents if rulebook is not None else (LOCAL.agent_id,)
        found = [name for name in names if wanted.lower() in name.lower()]
        return sorted(found, key=lambda name: (not name.startswith(wanted), name))[:most]

    def exists(self, thing: ToolRecord | Target) -> bool:
        """Tell whether a server has this now; a resource or prompt counts if the server may have it."""
        catalogs = self._current.tools, self._current.held.tools
        return not isinstance(thing, ToolRecord) or any(
            one.of_server(thing.server, thing.own_name) is thing for one in catalogs
        )

    def held(self, thing: ToolRecord | Target) -> HeldItem | None:
        """Return why a thing waits for an approval; None if it does not."""
        return held_target(self._current.held, self._current.resources, thing)

    def takes_less(self, thing: ToolRecord | Target) -> bool:
        """Return whether a server no longer takes all calls of a tool or prompt that is served as it was approved."""
        if isinstance(thing, ToolRecord):
            return thing.takes is not None
        prompts = self._current.resources.prompts.records if thing.kind == "prompt" else ()
        return any(
            (one.server, one.own_name) == (thing.server, thing.name) and one.takes is not None for one in prompts
        )

    def find(self, name: str) -> ToolRecord | Target:
        """Return the tool of a name in any spelling, be it held, or the resource or prompt of `resource:server.uri`.

        Raises:
            OperatorError: the text is no name.
        """
        if len(name) > _LONGEST_NAME:
            raise OperatorError(f"A name has at most {_LONGEST_NAME} characters.")
        for catalog in (self._current.tools, self._current.held.tools):
            found = next(catalog.candidates(name), None)
            if found is not None:
                return found
        target = parse_full_name(name, self._servers())
        if target.kind != "prompt":
            return record_of(target)
        own = (one for one in self._current.resources.prompts.records if one.server == target.server)
        return replace(target, sent_as=next((one.sent_as for one in own if one.own_name == target.name), ""))

    def earlier(self, names: Sequence[str]) -> tuple[EarlierRead, ...]:
        """Return what full names, in any spelling, and labels stand for, as read before a call.

        Raises:
            OperatorError: one is neither, or there are too many.
        """
        rulebook = self._views.rulebook
        if rulebook is None or not names:
            return ()
        if len(names) > _MOST_EARLIER:
            raise OperatorError(f"At most {_MOST_EARLIER} names can have been read before.")
        labels = {*BUILT_IN_LABELS, *rulebook.documents.labels}
        texts, tools = [], []
        for name in (one[:_LONGEST_NAME] for one in names):
            tool = next(self._current.tools.candidates(name), None) if name not in labels else None
            if tool is not None:
                tools.append(tool)
            texts.append(tool.name if tool is not None else name)
        return earlier_reads(texts, rulebook, self._servers(), tools, self._views.is_trusted)

    def _servers(self) -> Mapping[str, str]:
        """Return the ids of the servers by prefix."""
        configs = [upstream.config for upstream in self._upstreams.values()]
        return {config.prefix or config.id: config.id for config in configs}

    async def explain(
        self,
        agent: str,
        thing: ToolRecord | Target,
        arguments: dict[str, Any] | None = None,
        earlier: Sequence[EarlierRead] = (),
    ) -> ExplainedCall:
        """Explain what would be decided about a call, or read, of what `find` found; `earlier`: see `earlier`."""
        explained = await self._explained(agent, thing, arguments, earlier)
        return replace(explained, held=self.held(thing), takes_less=self.takes_less(thing))

    async def _explained(
        self,
        agent: str,
        thing: ToolRecord | Target,
        arguments: dict[str, Any] | None,
        earlier: Sequence[EarlierRead],
    ) -> ExplainedCall:
        view = self._views.of(Principal(agent))
        if isinstance(thing, Target):
            if thing.kind != "resource" or view.open or not self._knows(agent):
                return explain_item(view, thing, earlier=earlier)
            had = await self._views.prepare_resources(view, self._current.resources, self._slices)
            return explain_item(view, *_as_read(thing, had, self._current.resources), earlier)
        upstream = self._upstreams.get(thing.server) if self.exists(thing) else None
        config = upstream.config if upstream is not None else None
        return await explain_call(view, thing, config, arguments, self._checker, self._rate_limits, earlier)

    async def seen_by(self, agent: str, most: int = 200) -> Mapping[str, Any]:
        """Return an agent's view: the number of each kind, and the first names; tokens are estimates."""
        host = Host("http", None, Principal(agent))
        if not self._knows(agent):
            # No list is kept for an agent that does not exist.
            return _nothing(agent, len(self._current.tools.listed.tools))
        await self._host_lists.prepare(host)
        _, listed = self._host_lists.tools_for(host)
        view, items = self._views.of(host.principal), self._current.resources
        whole = await self._views.prepare_listing(view, self._current.tools, self._slices)
        had = await self._views.prepare_resources(view, items, self._slices)
        short = self._exposure.is_short(listed)
        # A model pays for the instructions too.
        off, left_out = self._finder.switched_off(view), self._finder.left_out(view)
        said = instructions_about(self._finder.servers(view), short=short, off=off, left_out=left_out)
        text = estimate(said)
        cost = await self._slices.run(self._exposure.cost_steps(listed)) + text
        all_cost = cost if listed is whole else await self._slices.run(self._exposure.cost_steps(whole)) + text
        return {
            "agent": agent,
            "known": True,
            "tools": {
                "count": len(whole.tools),
                "of": len(self._current.tools.listed.tools),
                "listed": len(listed.tools),
                "tokens": cost,
                "tokens_of_all": all_cost,
                "short": short,
                "names": [
                    {"name": tool.name, "verdict": view.ruling(tool).decision.verdict} for tool in whole.tools[:most]
                ],
            },
            "resources": _named(had.resources, most),
            "templates": _named(had.templates, most),
            "prompts": _named(had.prompts, most),
            "skills": {
                "count": len(had.skills),
                "names": [full_name(one).removeprefix(SKILL) for one in had.skills.records[:most]],
            },
            "held": await self._slices.run(self._held_steps(view, most)),
        }

    def _held_steps(self, view: View, most: int) -> Steps[Mapping[str, Any]]:
        """Return the items that an agent would see in addition after their approval."""
        held = self._current.held
        names: list[str] = []
        for tool in held.tools.tools if held else ():
            yield
            if view.ruling(tool).decision.visible:
                names.append(tool.name)
        for record in held.items.items if held else ():
            yield
            if view.shows(record):
                names.append(_item_name(record))
        return {"count": len(names), "names": names[:most]}

    def _knows(self, agent: str) -> bool:
        rulebook = self._views.rulebook
        return rulebook is None or rulebook.for_agent(agent) is not None

    async def try_edit(self, edit: PolicyEdit) -> TriedEdit:
        """Return what would change if a policy file were edited so; nothing is written.

        Raises:
            OperatorError: there is no folder for policy files, the edit names none of them, or others wait already.
        """
        live = self._live
        if live is None:
            raise OperatorError("There is no folder for policy files here (`policies` in the configuration).")
        if self._waiting >= _MOST_WAITING:
            raise OperatorError("Other edits are being tried: try this one again in a moment.")
        self._waiting += 1
        try:
            async with self._turn:
                return await asyncio.to_thread(live.try_edit, edit, self._current.tools.tools, self._views.is_trusted)
        finally:
            self._waiting -= 1


def _as_read(target: Target, had: ItemCatalog, items: ItemCatalog) -> tuple[Target, str | None]:
    """Return a resource as a read is decided about, and why its spelling is refused before that."""
    target = replace(target, skills=items.skill_names(target.server, target.name))
    if had.lists(target.server, target.name):
        return replace(target, listed=True), None
    odd = fault(target.name)
    if odd is not None:
        return target, odd
    sent = canonical(target.name)
    return replace(target, name=sent, also=items.other_spellings(target.server, resolved(sent))), None


def _nothing(agent: str, tools: int) -> Mapping[str, Any]:
    counts = {"count": 0, "of": tools, "listed": 0, "tokens": 0, "tokens_of_all": 0, "short": False, "names": []}
    none = {"count": 0, "names": []}
    return {
        "agent": agent,
        "known": False,
        "tools": counts,
        "resources": none,
        "templates": none,
        "prompts": none,
        "skills": none,
        "held": none,
    }


def _named(pages: Pages[Any], most: int) -> Mapping[str, Any]:
    records = pages.records
    return {"count": len(records), "names": [f"{one.prefix}.{one.own_name}" for one in records[:most]]}


def _item_name(record: ItemRecord) -> str:
    """Return the name of an item as policies write it."""
    if record.kind == "skill":
        return full_name(record)
    kind = "prompt" if record.kind == "prompt" else "resource"
    return f"{kind}:{record.prefix}.{record.own_name}"


def held_target(held: HeldItems, items: ItemCatalog, thing: ToolRecord | Target) -> HeldItem | None:
    """Return why a target is held, or None. `items` are the shown resources and templates."""
    if not held:
        return None
    if isinstance(thing, ToolRecord):
        return held.tool(thing)
    if thing.kind == "prompt":
        return held.why.get((thing.server, "prompt", thing.name))
    for skill in held.items.skills_around(thing.server, thing.uri):
        if (why := held.item(skill)) is not None:
            return why
    if thing.kind == "skill" or items.lists(thing.server, thing.name):
        return None
    if any(one.server == thing.server and fits(one.own_name, thing.name) for one in items.templates.records):
        return None
    leading = (one for one in held.items.templates.records if one.server == thing.server)
    return next(
        (held.item(one) for one in leading if thing.name == one.own_name or fits(one.own_name, thing.name)), None
    )
