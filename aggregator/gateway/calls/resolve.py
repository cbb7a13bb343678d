"""The tool that a name means for an agent, or the refusal of the policy. A call waits for a server that is starting."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from aggregator.accounts.ask import MissingAccounts
from aggregator.catalog.catalog import Catalog
from aggregator.domain.bounds.slices import Slices
from aggregator.domain.errors import Blame, NotAllowed, UnknownTool
from aggregator.domain.missing import LoginRequired
from aggregator.domain.names import Style, loosened, spellings, without_host_prefix
from aggregator.domain.principal import Principal
from aggregator.domain.records import ToolRecord
from aggregator.gateway.constant_time import evenly
from aggregator.gateway.views.current import CurrentCatalog
from aggregator.gateway.views.views import View, Views
from aggregator.pins.gateway.answers import tool_held, tool_renamed
from aggregator.upstream.lifecycle.states import LISTED_IF_KNOWN
from aggregator.upstream.supervisor import Supervisor
from aggregator.upstream.upstream import Upstream

log = logging.getLogger(__name__)

# In these states of its server, after the wait for its start, a call is answered before a policy decides or asks.
_NOT_THERE: Final = frozenset({"starting", "unavailable"})
# Tells whether another server can answer for a tool.
IsCovered = Callable[[ToolRecord], bool]


class Resolver:
    """The look-up of called names. `patience` is how many seconds a call waits for servers that start.

    `is_covered` tells whether another server can answer for a tool. `own` are the names of the aggregator's own tools.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        views: Views,
        patience: float,
        is_covered: IsCovered,
        slices: Slices,
        current: CurrentCatalog,
        accounts: MissingAccounts | None = None,
        own: Iterable[str] = (),
    ) -> None:
        self.current = current
        self._accounts = accounts or MissingAccounts()
        self._own = {loosened(one): one for one in own}
        self._supervisor = supervisor
        self._views = views
        self.patience = patience
        self._is_covered = is_covered
        self._slices = slices
        self._upstreams = supervisor.upstreams
        self._by_prefix = supervisor.by_prefix

    @property
    def catalog(self) -> Catalog:
        """The catalog in force."""
        return self.current.tools

    async def resolve(self, view: View, name: str, style: Style, *, to_call: bool = True) -> ToolRecord:
        """Return the tool that a name means for this agent, after waiting for a server that starts.

        `to_call`: a tool remembered from the last start is not enough, since it decides on the call.

        Raises:
            ToolHeld: its definition waits for an approval.
            UnknownTool: this agent may know of no such tool; with the nearest names in the host's own style.
            NotAllowed: this agent may not call it.
            UpstreamUnavailable: its server is away.
            LoginRequired: its server is away until this agent has connected an account.
        """
        began = asyncio.get_running_loop().time()
        visible = self.called(view, name)
        if visible is not None and not (to_call and self.is_only_remembered(visible)):
            return visible
        if visible is None:
            self._refuse_held(view, name)
        upstream = self._upstreams[visible.server] if visible is not None else self._named(view, name)
        if upstream is None or (visible is None and _hides(view, upstream, name)):
            # A shortened name does not name its server, and a hidden tool must take the same time as an absent one.
            await self._supervisor.wait_all_tried(self.patience)
        else:
            if visible is not None or (not upstream.listed and _might_call(view, upstream, name)):
                upstream.start()
            await self._supervisor.wait_tried(
                upstream, visible.timeout if visible is not None else upstream.config.timeout
            )
        visible = self.called(view, name)
        if visible is not None:
            if to_call and self._upstreams[visible.server].state in _NOT_THERE and not self._is_covered(visible):
                missing = await self.login(view, visible.server)
                error = missing or self._upstreams[visible.server].unavailable()
                error.meant = visible
                raise error
            return visible
        self._refuse_held(view, name)
        if upstream is not None and upstream.listed and _might_call(view, upstream, name):
            # Its server may have added the tool since, and not announced it.
            if await upstream.look_again() and (added := self.called(view, name)) is not None:
                return added
            self._refuse_held(view, name)
        readings = [*self._readings(view, name), *self._held_readings(view, name)]
        if not readings and upstream is not None and not upstream.listed and _might_call(view, upstream, name):
            raise (await self.login(view, upstream.config.id) if to_call else None) or upstream.unavailable()
        blame: Blame | None = None
        meant: ToolRecord | None = None
        for tool in readings:
            denied = view.ruling(tool).decision
            blame, meant = Blame(denied.rule, denied.source), tool
            agent = view.principal.agent_id
            log.info("%s may not call %s: %s [%s, %s]", agent, tool.name, denied.reason, *blame)
            if not denied.hidden:
                raise NotAllowed(tool.name, f"{tool.name} is not allowed for this agent.", blame=blame, meant=tool)
        listing = await self._views.prepare_listing(view, self.catalog, self._slices)
        nearest = self._own_nearest(name) or await self._slices.run(listing.nearest_steps(name, style))
        if not view.open:
            await self._supervisor.wait_all_tried(began + self.patience - asyncio.get_running_loop().time())
            await evenly(began)
        raise UnknownTool(name, nearest, blame, meant)

    def _own_nearest(self, name: str) -> list[str]:
        """Return the tool of ours that a name is another spelling of, or names as a tool of an unknown server."""
        parts = (name, name.removeprefix("aggregator_"), *(tool for _, tool in spellings(without_host_prefix(name))))
        return list(dict.fromkeys(self._own[key] for part in parts if (key := loosened(part)) in self._own))

    async def is_written(self, view: View, name: str) -> bool:
        """Return True if a name, as written, is or may become that of a tool this agent may know of. Before it returns
        False it waits for servers that start; hidden tools take the same time.
        """
        began = asyncio.get_running_loop().time()
        if self._may_be_written(view, name):
            return True
        await self._supervisor.wait_all_tried(self.patience)
        known = self._is_known(view, name)
        if not known and not view.open:
            await evenly(began)
        return known

    def is_written_now(self, view: View, name: str) -> bool | None:
        """Return what `is_written` does, without its waits; None if it waits for servers that start."""
        if self._may_be_written(view, name):
            return True
        return False if self._supervisor.all_tried else None

    def _may_be_written(self, view: View, name: str) -> bool:
        if self._is_known(view, name):
            return True
        upstream = self._named(view, name)
        return upstream is not None and not upstream.listed and _might_call(view, upstream, name)

    def _is_known(self, view: View, name: str) -> bool:
        readings = [*self._readings(view, name), *self._held_readings(view, name)]
        decided = (view.ruling(tool).decision for tool in readings)
        return any(decision.visible or not decision.hidden for decision in decided)

    async def login(self, view: View, server: str) -> LoginRequired | None:
        """Return the error with a link, if a server is away until this agent connects an account."""
        return await self._accounts.to_list(self._upstreams[server], view.principal)

    def called(self, view: View, name: str) -> ToolRecord | None:
        """Return the tool visible under a name now, without waiting.

        Tools hidden from this agent do not shadow visible ones.
        """
        for tool in self._readings(view, name):
            if view.ruling(tool).decision.visible:
                return tool
        return None

    def held(self, view: View, name: str) -> ToolRecord | None:
        """Return the tool that a name means, if it is held and this agent could call it otherwise."""
        for tool in self._held_readings(view, name):
            if view.ruling(tool).decision.visible:
                return tool
        return None

    def check_shown(self, view: View, tool: ToolRecord) -> None:
        """Check that a tool, which this agent may call, is not held since it was resolved.

        Raises:
            ToolHeld: it is.
        """
        held = self.current.held.tool(tool)
        if held is None:
            return
        if held.before and not view.decide_name(self._upstreams[held.server].config, held.before).visible:
            # The rules keep the approved name from this agent.
            held = replace(held, before="")
        raise tool_held(tool, held)

    def name_to_send(self, view: View, tool: ToolRecord) -> str:
        """Return the name that its server gives a tool now, and check that it is not held since it was resolved.

        Raises:
            ToolHeld: it is.
            NotAllowed: its server spells its name otherwise since then, and other rules hold for the new name.
        """
        self.check_shown(view, tool)
        now = self.catalog.of_server(tool.server, tool.own_name)
        if now is None or now.sent_as == tool.sent_as:
            return tool.sent_as
        ruling = view.ruling(now)
        if ruling != view.ruling(tool):
            said = f"{tool.name} was not called: its server has changed its name, and other rules hold for the new one."
            raise NotAllowed(tool.name, said, blame=Blame(ruling.decision.rule, ruling.decision.source), meant=now)
        return now.sent_as

    def name_of_call(self, principal: Principal, tool: ToolRecord) -> str:
        """Return what `name_to_send` does, for the caller of a tool."""
        return self.name_to_send(self._views.of(principal), tool)

    def _refuse_held(self, view: View, name: str) -> None:
        held = self.current.held
        tool = self.held(view, name) if held else None
        if tool is not None and self.called(view, name) is None:
            self.check_shown(view, tool)
        if not held.renamed or (upstream := self._named(view, name)) is None or not _might_call(view, upstream, name):
            return
        one = held.renamed.get((upstream.config.id, _own_name(upstream, name)))
        new = held.tools.of_server(one.server, one.name) if one is not None else None
        if one is not None and new is not None and view.ruling(new).decision.visible:
            raise tool_renamed(name, new, one)

    async def awake(self, tool: ToolRecord) -> None:
        """Start the server of a tool remembered from the last start, and wait until it has come up or failed."""
        if self.is_only_remembered(tool):
            upstream = self._upstreams[tool.server]
            upstream.start()
            await self._supervisor.wait_tried(upstream, tool.timeout)

    def is_only_remembered(self, tool: ToolRecord) -> bool:
        """Return True if a tool is only remembered from an earlier connection: its server has to come up before a
        call.
        """
        return self._upstreams[tool.server].lifecycle.state in LISTED_IF_KNOWN

    def _readings(self, view: View, name: str) -> Iterable[ToolRecord]:
        return self._meanings(view, name, self.current.tools)

    def _held_readings(self, view: View, name: str) -> Iterable[ToolRecord]:
        return self._meanings(view, name, self.current.held.tools) if self.current.held else ()

    def _meanings(self, view: View, name: str, catalog: Catalog) -> Iterable[ToolRecord]:
        bound = view.binding(name)
        if bound is None:
            return catalog.candidates(name)
        tool = catalog.of_server(bound, name)
        return [tool] if tool is not None else []

    def _named(self, view: View, name: str) -> Upstream | None:
        """Return the server in a name, whether or not it has such a tool."""
        bound = view.binding(name)
        if bound is not None:
            return self._upstreams.get(bound)
        named = (self._by_prefix[prefix] for prefix, _ in spellings(name) if prefix in self._by_prefix)
        return next(named, self._by_prefix.get(""))


def _might_call(view: View, upstream: Upstream, name: str) -> bool:
    """Return True if this agent could call that name on a live server; otherwise it must not learn of the server."""
    return view.decide_name(upstream.config, _own_name(upstream, name)).visible


def _hides(view: View, upstream: Upstream, name: str) -> bool:
    """Return True if a denial of that name would be hidden from this agent."""
    return view.decide_name(upstream.config, _own_name(upstream, name)).hidden


def _own_name(upstream: Upstream, name: str) -> str:
    prefix = upstream.config.prefix
    return next((tool for known, tool in spellings(name) if known == prefix), name)
