"""Every method a host may call, one table per era. Doors hand in what came and carry out what this returns."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from aggregator.catalog.catalog import Catalog
from aggregator.catalog.resources import ItemCatalog
from aggregator.config.model import Config
from aggregator.domain.abilities import abilities_of
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.call_record import ON_RECORD
from aggregator.domain.errors import INVALID_PARAMS, METHOD_NOT_FOUND, HostError, NotServed
from aggregator.domain.log_levels import LEVELS, rank
from aggregator.domain.missing import UnknownResource
from aggregator.domain.principal import Principal
from aggregator.domain.records import ToolRecord
from aggregator.domain.versions import LATEST_LEGACY, LEGACY_VERSIONS, META_CLIENT_INFO, SUPPORTED_VERSIONS, era_of
from aggregator.gateway.admission import Admission
from aggregator.gateway.ask.approval import ApprovalStep
from aggregator.gateway.ask.input_required import InputRequests
from aggregator.gateway.ask.upstream_caller import RequestCaller, SessionCaller
from aggregator.gateway.call_log import CallLog, OpenRecord
from aggregator.gateway.calls.failover import Failover
from aggregator.gateway.calls.pipeline import Pipeline
from aggregator.gateway.calls.resolve import Resolver
from aggregator.gateway.capabilities import CAPABILITIES
from aggregator.gateway.constant_time import evenly
from aggregator.gateway.drain import Drain
from aggregator.gateway.eras import SERVER_INFO, for_legacy, for_modern, version_spoken
from aggregator.gateway.host import Host
from aggregator.gateway.host_lists import HostLists
from aggregator.gateway.look_alike_members import refuse_look_alikes
from aggregator.gateway.meta.exposure import Exposure
from aggregator.gateway.meta.registry import META_TOOLS, READ_TOOL, MetaTools
from aggregator.gateway.offers import Offers
from aggregator.gateway.reads.completion import Completion
from aggregator.gateway.reads.listen import ListenStreams
from aggregator.gateway.reads.permission import ItemPermission
from aggregator.gateway.reads.prompts import Prompts
from aggregator.gateway.reads.resources import Resources
from aggregator.gateway.reads.subscriptions import Subscriptions
from aggregator.gateway.request import Request
from aggregator.gateway.revocation import AdmittedTasks
from aggregator.gateway.views.cache_hints import OURS, CacheHints
from aggregator.gateway.views.catalog_builder import CatalogBuilder
from aggregator.gateway.views.finder import Finder, ServerSeen
from aggregator.gateway.views.instructions import instructions
from aggregator.gateway.views.list_changed import ListChanges
from aggregator.gateway.views.views import Views
from aggregator.upstream.supervisor import Supervisor
from aggregator.wire.peer import Channel

if TYPE_CHECKING:
    from aggregator.catalog.intent.intent import Match

Handler = Callable[["Dispatcher", Request], Awaitable[Mapping[str, Any]]]


class Dispatcher:
    """One per process; it holds no state of any host."""

    def __init__(self, config: Config, supervisor: Supervisor, views: Views, consent: ApprovalStep) -> None:
        self._config = config
        self._supervisor = supervisor
        reserved = {**META_TOOLS, **(READ_TOOL if config.read_tool else {})}
        prefixes = [server.prefix for server in config.servers]
        self.failover = Failover(supervisor.links)
        slices = supervisor.slices
        self._shelf = CatalogBuilder(
            supervisor.links, prefixes, config.name_limit, reserved, self.failover.covers, slices
        )
        supervisor.look_over = self._shelf.look_over
        self.tools_of = self._shelf.tools_of
        self.views = views
        self.journal = CallLog()
        http = config.http
        self.room = Admission(
            {"sessions": http.max_sessions, "streams": http.max_streams, "pending": http.max_pending}, http.agent_share
        )
        self.closing = Drain()
        self._resolver = Resolver(supervisor, views, config.startup_wait, self.failover.covers, slices)
        self.admitted = AdmittedTasks()
        self._inquiries = InputRequests(self.admitted)
        self._offers = Offers(views, self._settled, supervisor.by_prefix, slices)
        self._pipeline = Pipeline(
            supervisor.links, self._resolver, consent, self.journal, self._inquiries, self.failover, self._offers
        )
        self._pipeline.reconfigure(config)
        self._finder = Finder(config, supervisor.links, views, self.failover.answering, slices)
        self.source = self._finder.source
        self._meta = MetaTools(self._finder, self._resolver, self._pipeline, self.journal, read_tool=config.read_tool)
        self._exposure = Exposure(self._meta, config.pinned, config.expose_budget)
        hints = CacheHints(supervisor.links)
        self._exhibit = HostLists(config, views, self._resolver, self._offers, self._exposure, hints, slices)
        permission = ItemPermission(consent)
        self._resources = Resources(supervisor, self._offers, permission)
        self._prompts = Prompts(supervisor, self._offers, permission)
        self._completion = Completion(self._offers, self._resources, self._prompts, permission)
        self._subscriptions = Subscriptions(supervisor.links, self._resources.may_read)
        self.changes = ListChanges(self._exhibit, self._left)
        self._many_offered = asyncio.Event()
        self._listening = ListenStreams(self.changes, self._subscriptions, self._offers, self._resources)

    @property
    def catalog(self) -> Catalog:
        return self._resolver.catalog

    @property
    def offer(self) -> ItemCatalog:
        """What there is besides tools."""
        return self._offers.all

    async def prepare(self, config: Config) -> None:
        """Go through what the servers have as another configuration will show it, ahead of `reconfigure`."""
        await self._shelf.prepare(config.servers, config.name_limit)

    def reconfigure(self, config: Config) -> None:
        """The links are others by now, or what is made of what they have: hosts hear of it at most once."""
        self._config = config
        self._exhibit.reconfigure(config)
        self._resolver.patience = config.startup_wait
        self._pipeline.reconfigure(config)
        self._exposure.reconfigure(config.pinned, config.expose_budget)
        self._shelf.reconfigure([server.prefix for server in config.servers], config.name_limit)
        self._finder.reconfigure(config)
        self._subscriptions.reconfigure()
        self.restock(anew=True)

    def restock(self, *, anew: bool = False) -> None:
        """An upstream changed: see anew what there is, and tell the hosts whose lists differ.

        `anew`: what is worked out for each agent may be other than before, even of the same tools.
        """
        self.failover.restock(self._shelf.tools_of)
        offer = self._shelf.offer()
        if offer is None:
            self._many_offered.set()
        elif offer is not self._offers.all:
            self._offers.all = offer
            self._finder.offer = offer
            self.changes.announce()
        catalog = self._shelf.stock()
        if anew or catalog.tools != self.catalog.tools:
            self._resolver.catalog = catalog
            self._pipeline.restock()
            self._finder.restock(catalog)
            self.changes.announce()

    async def work(self) -> None:
        """What goes on beside the calls, for ever."""
        async with Tasks("the gateway") as tasks, self._inquiries.parking.tasks:
            tasks.start(self._finder.work())
            tasks.start(self._keep_offer())
            await asyncio.to_thread(self._meta.load)
            await self._pipeline.keep_checks_ready()

    async def _keep_offer(self) -> None:
        """Make the offer anew, wherever it is too much to be made at once, for ever."""
        while True:
            await self._many_offered.wait()
            self._many_offered.clear()
            await self._shelf.make_offer()
            self.restock()

    async def hang_up(self) -> None:
        """No host comes back any more: end what waits for one."""
        await self._inquiries.parking.close()

    async def answer(self, host: Host, method: str, params: dict[str, Any], channel: Channel) -> Mapping[str, Any]:
        """The result of one request, shaped for the era it speaks.

        Raises:
            RpcError: the error to answer with.
        """
        version = version_spoken(host, method, params)
        modern = version is not None and era_of(version) == "modern"
        if modern and host.introduce(params["_meta"].get(META_CLIENT_INFO)):
            self.changes.refresh(host)
        if modern and self._supervisor.audience.awaited:
            self._supervisor.audience.arrived(RequestCaller(host, version, params, channel))
        handler = (_MODERN if modern else _LEGACY).get(method)
        if handler is None:
            raise HostError(METHOD_NOT_FOUND, f"Method not found: {method}", {"method": method})
        if self.closing.begun and method not in _TO_THE_END:
            raise self.closing.refusal()
        began = asyncio.get_running_loop().time()
        try:
            with self.closing:
                result = await handler(self, Request(host, params, channel, version, self._inquiries))
        except NotServed as missing:
            if self.views.rulebook is not None:
                await evenly(began)
            if modern or not isinstance(missing, UnknownResource):
                raise
            raise missing.before_2026() from missing
        return for_modern(result) if modern else for_legacy(result)

    def hear(self, host: Host, method: str, params: Mapping[str, Any]) -> None:
        """A notification from a host; those about running requests are the door's own."""
        if method == "notifications/initialized" and host.version is not None:
            host.initialized = True
        elif method == "notifications/roots/list_changed" and host.version is not None:
            self._supervisor.tell_alone(host, method)

    def called(self, principal: Principal, name: str) -> ToolRecord | None:
        """The tool a name stands for, for doors that compare headers with its schema; None for what is not visible."""
        return self._resolver.called(self.views.of(principal), name)

    async def find(self, principal: Principal, name: str) -> ToolRecord:
        """The same, waiting for a server that is still starting.

        Raises:
            UnknownTool, NotAllowed, UpstreamUnavailable: as a call of it would.
        """
        return await self._resolver.find(self.views.of(principal), name, "canonical")

    # -- what there is, for doors that do not speak MCP

    async def tools(
        self, principal: Principal, *, query: str | None = None, server: str | None = None, limit: int | None = None
    ) -> list[ToolRecord]:
        """What an agent may call, with the schemas it is held to: in order, or best first for `query`."""
        await self._settled()
        view = self.views.of(principal)
        await self.views.listed(view, self.catalog, self._supervisor.slices)
        if query is not None:
            return await self._finder.search(view, query, limit or len(self.catalog), server)
        return (self._finder.of_server(view, server) if server is not None else list(self._finder.tools(view)))[:limit]

    async def match_intent(self, principal: Principal, message: str, limit: int = 10) -> "Match":
        """What a message of a person asks for."""
        await self._settled()
        return await self._finder.match(self.views.of(principal), message, limit)

    async def servers(self, principal: Principal) -> list[ServerSeen]:
        """The servers an agent may know of."""
        view, slices = self.views.of(principal), self._supervisor.slices
        await self.views.offered(view, self.offer, slices)
        await self.views.listed(view, self.catalog, slices)
        return self._finder.servers(view)

    def list_costs(self) -> dict[str, tuple[int, int]]:
        """About how many tokens the whole list costs, and what is listed, by agent; of agents with a short one."""
        return self._exposure.costs()

    # -- methods

    async def initialize(self, question: Request) -> Mapping[str, Any]:
        host, params = question.host, question.params
        asked, capabilities, info = (params.get(key) for key in ("protocolVersion", "capabilities", "clientInfo"))
        if not isinstance(asked, str):
            raise HostError(INVALID_PARAMS, "`initialize` needs `protocolVersion` as a string.")
        host.version = asked if asked in LEGACY_VERSIONS else LATEST_LEGACY
        host.capabilities = capabilities if isinstance(capabilities, dict) else {}
        if host.introduce(info):
            self.changes.refresh(host)
        await self._exhibit.prepare(host)
        self._supervisor.audience.arrived(SessionCaller(host, abilities_of(host.version, host.capabilities)))
        return {
            "protocolVersion": host.version,
            "capabilities": CAPABILITIES,
            "serverInfo": SERVER_INFO,
            "instructions": self._instructions(question.host),
        }

    async def discover(self, question: Request) -> Mapping[str, Any]:
        await self._exhibit.prepare(question.host)
        return {
            "supportedVersions": list(reversed(SUPPORTED_VERSIONS)),
            "capabilities": CAPABILITIES,
            "instructions": self._instructions(question.host),
            **replace(OURS, public=False).hints(),
        }

    async def ping(self, question: Request) -> Mapping[str, Any]:
        return {}

    async def set_level(self, question: Request) -> Mapping[str, Any]:
        level = question.params.get("level")
        if rank(level) is None:
            raise HostError(INVALID_PARAMS, f"`level` must be one of {', '.join(LEVELS)}.")
        question.host.log_level = level
        return {}

    async def list_tools(self, question: Request) -> Mapping[str, Any]:
        await self._settled()
        await self._exhibit.prepare(question.host)
        style, listing = self._exhibit.to(question.host)
        self.changes.told(question.host, "tools", (style, listing.tools))
        return await self._exhibit.page(question, "tools", "tool", listing, style)

    async def list_resources(self, question: Request) -> Mapping[str, Any]:
        await self._settled()
        offer = await self._offer(question)
        return await self._exhibit.page(question, "resources", "resource", offer.resources)

    async def list_templates(self, question: Request) -> Mapping[str, Any]:
        await self._settled()
        offer = await self._offer(question)
        return await self._exhibit.page(question, "resourceTemplates", "template", offer.templates)

    async def list_prompts(self, question: Request) -> Mapping[str, Any]:
        await self._settled()
        view = self._offers.view(question)
        style, prompts = view.style(question.host.style), (await self._offer(question)).prompts
        self.changes.told(question.host, "prompts", (style, prompts.records))
        return await self._exhibit.page(question, "prompts", "prompt", prompts, style)

    async def _offer(self, question: Request) -> ItemCatalog:
        await self._offers.ready(question.host)
        return self._offers.of(self._offers.view(question))

    async def read_resource(self, question: Request) -> Mapping[str, Any]:
        return await self._on_record("resources/read", question, self._resources.read)

    async def get_prompt(self, question: Request) -> Mapping[str, Any]:
        return await self._on_record("prompts/get", question, self._prompts.get)

    async def complete(self, question: Request) -> Mapping[str, Any]:
        return await self._on_record("completion/complete", question, self._completion.complete)

    async def _on_record(
        self, method: str, question: Request, answer: Callable[[Request], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        async def travel(trail: OpenRecord) -> dict[str, Any]:
            if self.closing.begun:
                raise self.closing.refusal()
            refuse_look_alikes(question.params)
            await self._offers.ready(question.host)
            return await answer(question._replace(trail=trail))

        return await self.journal.attend(method, question.asked(), question.host, travel)

    async def subscribe(self, question: Request) -> Mapping[str, Any]:
        await self._offers.ready(question.host)
        found = await self._resources.permitted(question)
        await self._subscriptions.subscribe(question.host, found)
        return {}

    async def unsubscribe(self, question: Request) -> Mapping[str, Any]:
        uri = question.text("uri")
        await self._offers.ready(question.host)
        self._subscriptions.unsubscribe(question.host, uri, self._resources.seen(self._offers.view(question), uri))
        return {}

    async def call_tool(self, question: Request) -> Mapping[str, Any]:
        host, params = question.host, question.params
        view = self.views.of(host.principal)
        asked = question.asked(view.style(host.style))
        if self.closing.begun:
            return await self.journal.follow(asked, host, self.closing.refuse)
        if params.get("name") in self._meta:
            await self._exhibit.prepare(host)
            return await self._meta.call(asked, view, host, question.channel)
        return await self._pipeline.call_tool(asked, view, host, question.channel)

    async def _settled(self) -> None:
        await self._supervisor.settled(self._config.startup_wait, self._config.straggler_wait)

    def _left(self, host: Host) -> None:
        """A host's session is over."""
        self._subscriptions.leave(host)
        self._inquiries.parking.left(host)
        for link in self._supervisor.links.values():
            link.left(host)

    def _instructions(self, host: Host) -> str:
        """What a model should know before its first call."""
        servers = self._finder.servers(self.views.of(host.principal))
        said = {seen.config.id: seen.instructions for seen in servers}
        return instructions(
            [seen.config for seen in servers], said, short=self._exposure.is_short(self._exhibit.to(host)[1])
        )


_COMMON: Final[Mapping[str, Handler]] = {
    "tools/list": Dispatcher.list_tools,
    "tools/call": Dispatcher.call_tool,
    "resources/list": Dispatcher.list_resources,
    "resources/templates/list": Dispatcher.list_templates,
    "resources/read": Dispatcher.read_resource,
    "prompts/list": Dispatcher.list_prompts,
    "prompts/get": Dispatcher.get_prompt,
    "completion/complete": Dispatcher.complete,
}
_LEGACY: Final[Mapping[str, Handler]] = {
    **_COMMON,
    "initialize": Dispatcher.initialize,
    "ping": Dispatcher.ping,
    "logging/setLevel": Dispatcher.set_level,
    "resources/subscribe": Dispatcher.subscribe,
    "resources/unsubscribe": Dispatcher.unsubscribe,
}
# Answered while we are closing: calls by a refusal on record; the list, by which clients check a result they just got.
_TO_THE_END: Final = frozenset({"ping", "tools/list", *ON_RECORD})
_MODERN: Final[Mapping[str, Handler]] = {
    **_COMMON,
    "server/discover": Dispatcher.discover,
    "subscriptions/listen": lambda gateway, question: gateway._listening.listen(question),
}
