"""Every method that a host may call, one table per era. Frontends pass in requests and send the results back."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from aggregator.catalog.catalog import Catalog
from aggregator.catalog.resources import ItemCatalog
from aggregator.code.programs import RUN_CODE
from aggregator.config.model import Config
from aggregator.dialects.gateway import Dialects
from aggregator.domain.abilities import abilities_of
from aggregator.domain.bounds.kept_work import KeptWork
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.call import ToolCall
from aggregator.domain.call_record import ON_RECORD, TOOL_CALL
from aggregator.domain.errors import INVALID_PARAMS, METHOD_NOT_FOUND, HostError, NotServed, RpcError
from aggregator.domain.log_levels import LEVELS, rank
from aggregator.domain.missing import UnknownResource
from aggregator.domain.principal import Principal
from aggregator.domain.records import ToolRecord
from aggregator.domain.versions import META_CLIENT_INFO, SKILLS, era_of
from aggregator.gateway.admission import Admission
from aggregator.gateway.agent_items import AgentItems
from aggregator.gateway.ask.input_required import InputRequests
from aggregator.gateway.ask.upstream_caller import RequestCaller, SessionCaller
from aggregator.gateway.call_log import CallLog
from aggregator.gateway.calls.direct import DirectCalls
from aggregator.gateway.calls.pipeline import Pipeline
from aggregator.gateway.calls.resolve import Resolver
from aggregator.gateway.calls.running_calls import MOST, RunningCalls, running_calls
from aggregator.gateway.constant_time import evenly
from aggregator.gateway.drain import Drain
from aggregator.gateway.eras import for_legacy, for_modern, version_spoken
from aggregator.gateway.handshake import discover_result, initialize_result, take_initialize
from aggregator.gateway.host import Host
from aggregator.gateway.host_lists import HostLists
from aggregator.gateway.meta.exposure import Exposure
from aggregator.gateway.meta.registry import MetaTools, MetaToolSet
from aggregator.gateway.playground.playground import Playground
from aggregator.gateway.reads.listen import ListenStreams
from aggregator.gateway.reads.recorded import RecordedReads
from aggregator.gateway.reads.resources import Resources
from aggregator.gateway.reads.subscriptions import Subscriptions
from aggregator.gateway.request import Request
from aggregator.gateway.revocation import RevocableTasks
from aggregator.gateway.startup import StartupWait
from aggregator.gateway.views.current import CurrentCatalog
from aggregator.gateway.views.finder import MOST_FOUND, Finder
from aggregator.gateway.views.first_steps import first_steps
from aggregator.gateway.views.instructions import instructions_about
from aggregator.gateway.views.list_changed import ListChanges
from aggregator.gateway.views.server_seen import ServerSeen
from aggregator.gateway.views.views import View, Views
from aggregator.replicas.group.replication import Replication
from aggregator.tool_reports.book import REPORT_TOOL
from aggregator.upstream.list_kinds import declared_extension
from aggregator.upstream.supervisor import SETTLE, Supervisor
from aggregator.wire.codec import Raw
from aggregator.wire.peer import Channel

if TYPE_CHECKING:
    from aggregator.intent.match.intent import IntentMatch


class MethodHandler(Protocol):
    """A function that answers the requests of one method, with the result as the newest revision has it."""

    def __call__(self, gateway: "Dispatcher", request: Request, /) -> Awaitable[Mapping[str, Any]]: ...


class Dispatcher:
    """The dispatcher of host requests, one per process. It holds no state of any host."""

    def __init__(
        self,
        *,
        supervisor: Supervisor,
        startup: StartupWait,
        views: Views,
        current: CurrentCatalog,
        list_changed: ListChanges,
        call_log: CallLog,
        admission: Admission,
        drain: Drain,
        revocable: RevocableTasks,
        input_requests: InputRequests,
        resolver: Resolver,
        pipeline: Pipeline,
        direct: DirectCalls,
        finder: Finder,
        meta_tools: MetaToolSet,
        meta: MetaTools,
        dialects: Dialects | None,
        exposure: Exposure,
        host_lists: HostLists,
        agent_items: AgentItems,
        resources: Resources,
        reads: RecordedReads,
        subscriptions: Subscriptions,
        playground: Playground,
        listening: ListenStreams,
        group: Replication,
    ) -> None:
        self.group = group
        self.views = views
        self.list_changes = list_changed
        self.call_log = call_log
        self.admission = admission
        self.drain = drain
        self.revocation = revocable
        self.direct = direct
        self.playground = playground
        self._supervisor = supervisor
        self._startup = startup
        self._current = current
        self.input_requests = input_requests
        self._resolver = resolver
        self._pipeline = pipeline
        self._finder = finder
        self._meta_tools = meta_tools
        self._meta = meta
        self.dialects = dialects
        self._exposure = exposure
        self._host_lists = host_lists
        self._agent_items = agent_items
        self._resources = resources
        self.reads = reads
        self._subscriptions = subscriptions
        self.listening = listening

    @property
    def catalog(self) -> Catalog:
        """The tools of all upstreams."""
        return self._current.tools

    def running_calls(self, most: int = MOST) -> RunningCalls:
        """Return the calls in flight, described up to `most`."""
        return running_calls(self.call_log, self.direct, most)

    @property
    def resources(self) -> ItemCatalog:
        """The current resources, templates, prompts and skills of all upstreams."""
        return self._current.resources

    def source(self, tool: ToolRecord) -> Literal["local", "mcp"]:
        """Return the kind of server that a tool is from."""
        return self._finder.source(tool)

    def reconfigure(self, config: Config) -> None:
        """Take a new configuration after the supervisor has; each host is notified at most once."""
        self._startup.reconfigure(config)
        self._host_lists.reconfigure(config)
        self._resolver.patience = config.startup_wait
        self._pipeline.reconfigure(config)
        self._exposure.reconfigure(config)
        self._subscriptions.reconfigure()

    def upstreams_replaced(self) -> None:
        """Take note that an upstream was put in the place of another one of the same server."""
        self._subscriptions.reconfigure()

    async def run(self, kept: KeptWork | None = None) -> None:
        """Run the background work of the gateway until cancelled."""
        keep = (kept or KeptWork()).keep
        async with Tasks("the gateway") as tasks, self._meta.programs.sandbox, self.input_requests.parking.tasks:
            tasks.start(keep("the search index", self._finder.index.run))
            tasks.start(keep("the search by meaning", self._finder.meanings.run))
            tasks.start(keep("the index of skills", self._finder.skills.run))
            await keep("the checks ahead of calls", self._prepare)

    async def _prepare(self) -> None:
        await asyncio.to_thread(self._meta_tools.load)
        await self._pipeline.keep_checks_ready(self._settle)

    async def _settle(self) -> None:
        """Wait until the servers have come up: neither an index nor checks ahead of calls are worth a delay of them."""
        await self._supervisor.wait_all_tried(SETTLE)
        # The tables of search take 15 MiB. A host whose list has all of a few tools hardly ever searches.
        if await self._host_lists.expects_searches():
            self._finder.index.begin()

    def end_work(self) -> None:
        """End every request and call that is still under way, each with words for its host."""
        self.direct.end()
        self.drain.end_all()

    async def close_parked(self) -> None:
        """End the parked calls: no host comes back any more."""
        await self.input_requests.parking.close()

    async def answer(self, host: Host, method: str, params: dict[str, Any], channel: Channel) -> Mapping[str, Any]:
        """Return the result of one request, in the form of the era it speaks.

        Raises:
            RpcError: the error to answer with.
        """
        version = version_spoken(host, method, params)
        modern = version is not None and era_of(version) == "modern"
        if modern and host.set_client_info(params["_meta"].get(META_CLIENT_INFO)):
            self.list_changes.refresh(host)
        if modern and self._supervisor.clients.awaited:
            self._supervisor.clients.connected(RequestCaller(host, version, params, channel))
        handler = (_MODERN if modern else _LEGACY).get(method)
        if handler is None:
            raise HostError(METHOD_NOT_FOUND, f"Method not found: {method}", {"method": method})
        if self.drain.started and method not in _TO_THE_END:
            raise self.drain.refusal()
        began = asyncio.get_running_loop().time()
        try:
            with self.drain.work():
                result = await handler(self, Request(host, params, channel, version, self.input_requests))
            if method not in _COUNTED_APART:
                self._count(method, host, version, began)
        except NotServed as missing:
            if self.views.rulebook is not None:
                await evenly(began)
            if modern or not isinstance(missing, UnknownResource):
                raise
            raise missing.before_2026() from missing
        except Exception as error:
            if method not in _COUNTED_APART:
                self._count(method, host, version, began, str(error.code) if isinstance(error, RpcError) else _NO_CODE)
            raise
        if method == "tools/list" and not host.listed and result["tools"] != _NO_TOOLS:
            host.listed = True
            await self._pipeline.hooks.listed(self.views.rulebook, host)
        return for_modern(result) if modern else for_legacy(result)

    def _count(self, method: str, host: Host, version: str | None, began: float, failure: str | None = None) -> None:
        """Count a request that leaves no record."""
        count = self.call_log.observers.request_over
        if count is not None:
            seconds = asyncio.get_running_loop().time() - began
            count(method, host.frontend, version or host.version, seconds, failure)

    def on_notification(self, host: Host, method: str, params: Mapping[str, Any]) -> None:
        """Handle a notification of a host; those about running requests are handled by its frontend."""
        if method == "notifications/initialized" and host.version is not None:
            host.initialized = True
        elif method == "notifications/roots/list_changed" and host.version is not None:
            self._supervisor.notify_dedicated(host, method)

    def called(self, principal: Principal, name: str) -> ToolRecord | None:
        """Return the visible tool that a name means; None if there is none now."""
        return self._resolver.called(self.views.of(principal), name)

    async def find(self, principal: Principal, name: str) -> ToolRecord:
        """Return the tool that a name means; wait for a server that is still starting.

        Raises:
            UnknownTool, NotAllowed, UpstreamUnavailable: as a call of it would.
        """
        return await self._resolver.resolve(self.views.of(principal), name, "canonical")

    # -- queries of frontends that do not speak MCP

    async def tools(
        self, principal: Principal, *, query: str | None = None, server: str | None = None, limit: int | None = None
    ) -> list[ToolRecord]:
        """Return the tools an agent may call, with the schemas in force for it: in list order, or best first for
        `query`.
        """
        if query is not None:
            return (await self.search_tools(principal, query, server=server, limit=limit))[0]
        view = await self._listed(principal)
        return (self._finder.of_server(view, server) if server is not None else list(self._finder.tools(view)))[:limit]

    async def search_tools(
        self, principal: Principal, query: str, *, server: str | None = None, limit: int | None = None
    ) -> tuple[list[ToolRecord], str]:
        """Return the tools that fit a query, best first, and the line that says why even the best hardly does; empty
        if it fits, or nothing was found.
        """
        view = await self._listed(principal)
        # At least as many as the meta tool searches: the answers kept for a query are of so many.
        most = max(limit or len(self.catalog), MOST_FOUND)
        found, judged = await self._finder.search_and_judge(view, query, most, server)
        return found[:limit], judged.weak if judged is not None else ""

    async def _listed(self, principal: Principal) -> View:
        await self._startup.settled()
        view = self.views.of(principal)
        await self.views.prepare_listing(view, self.catalog, self._supervisor.slices)
        return view

    async def match_intent(self, principal: Principal, message: str, limit: int = 10) -> "IntentMatch":
        """Return the tools that a chat message asks for."""
        if "match_intent" not in self._meta_tools:
            raise HostError(METHOD_NOT_FOUND, "This program was built without `match_intent`.")
        await self._startup.settled()
        return await self._finder.match(self.views.of(principal), message, limit)

    @property
    def takes_reports(self) -> bool:
        """True if agents may report tools that are broken."""
        return REPORT_TOOL in self._meta_tools

    async def servers(self, principal: Principal) -> list[ServerSeen]:
        """Return the servers that an agent may know of."""
        view, slices = self.views.of(principal), self._supervisor.slices
        await self.views.prepare_resources(view, self.resources, slices)
        await self.views.prepare_listing(view, self.catalog, slices)
        return self._finder.servers(view)

    def list_costs(self) -> dict[str, tuple[int, int]]:
        """Return estimated tokens by agent: of the whole list and of the short list, with the instructions. Agents
        without a short list are left out.
        """
        return self._exposure.costs()

    # -- methods

    async def initialize(self, request: Request) -> Mapping[str, Any]:
        host = request.host
        if take_initialize(host, request.params):
            self.list_changes.refresh(host)
        await self._host_lists.prepare(host)
        assert host.version is not None
        self._supervisor.clients.connected(SessionCaller(host, abilities_of(host.version, host.capabilities)))
        return initialize_result(host, self._instructions(host), skills=self._may_have_skills())

    async def discover(self, request: Request) -> Mapping[str, Any]:
        await self._host_lists.prepare(request.host)
        return discover_result(self._instructions(request.host), skills=self._may_have_skills())

    async def ping(self, request: Request) -> Mapping[str, Any]:
        return {}

    async def set_level(self, request: Request) -> Mapping[str, Any]:
        level = request.params.get("level")
        if rank(level) is None:
            raise HostError(INVALID_PARAMS, f"`level` must be one of {', '.join(LEVELS)}.")
        request.host.log_level = level
        return {}

    async def list_tools(self, request: Request) -> Mapping[str, Any]:
        if self._host_lists.waits_for_servers(request.host):
            await self._startup.settled()
        await self._host_lists.prepare(request.host)
        style, listing = self._host_lists.tools_for(request.host)
        if self._exposure.is_short(listing):
            self._finder.index.begin()
        self.list_changes.record_sent(request.host, "tools", self._host_lists.tools_seen(request.host))
        return await self._host_lists.page(request, "tools", "tool", listing, style)

    async def list_resources(self, request: Request) -> Mapping[str, Any]:
        await self._startup.settled("resource")
        items = await self._visible_items(request)
        return await self._host_lists.page(request, "resources", "resource", items.resources)

    async def list_templates(self, request: Request) -> Mapping[str, Any]:
        await self._startup.settled("template")
        items = await self._visible_items(request)
        return await self._host_lists.page(request, "resourceTemplates", "template", items.templates)

    async def list_prompts(self, request: Request) -> Mapping[str, Any]:
        await self._startup.settled("prompt")
        view = self._agent_items.view(request)
        style, prompts = view.style(request.host.style), (await self._visible_items(request)).prompts
        self.list_changes.record_sent(request.host, "prompts", (style, prompts.records))
        return await self._host_lists.page(request, "prompts", "prompt", prompts, style)

    async def _visible_items(self, request: Request) -> ItemCatalog:
        await self._agent_items.ready(request.host)
        return self._agent_items.of(self._agent_items.view(request))

    async def list_skills(self, request: Request) -> Mapping[str, Any]:
        await self._startup.settled("skill")
        items = await self._visible_items(request)
        return await self._host_lists.page(request, "skills", "skill", items.skills)

    async def subscribe(self, request: Request) -> Mapping[str, Any]:
        await self._agent_items.ready(request.host)
        found = await self._resources.permitted(request)
        await self._subscriptions.subscribe(request.host.original, found)
        return {}

    async def unsubscribe(self, request: Request) -> Mapping[str, Any]:
        uri = request.text("uri")
        await self._agent_items.ready(request.host)
        self._subscriptions.unsubscribe(
            request.host, uri, self._resources.lookup.find_visible(self._agent_items.view(request), uri)
        )
        return {}

    def call_tool(self, request: Request) -> Awaitable[Mapping[str, Any]]:
        """Return what answers a call: the pipeline, or a meta tool of that name."""
        host = request.host
        view = self.views.of(host.principal)
        call = request.as_call(view.style(host.style))
        if self.drain.started:
            return self._refuse_call(call, host)
        name, programs = request.params.get("name"), self._host_lists.extent(view, host) == "code"
        if name in self._meta_tools or (programs and name == RUN_CODE):
            return self._call_meta_tool(request, call, view, programs)
        own = self._meta.meant(view, name, programs=programs) if isinstance(name, str) else None
        if own is not None:
            call = call._replace(params={**call.params, "name": own}, asked=name)
            return self._call_meta_tool(request, call, view, programs)
        return self._pipeline.call_tool(call, view, host, request.channel)

    async def _call_meta_tool(self, request: Request, call: ToolCall, view: View, programs: bool) -> Mapping[str, Any]:
        await self._startup.settled()  # their list may have gone out before
        await self._host_lists.prepare(request.host)
        return await self._meta.call(call, view, request.host, request.channel, programs=programs)

    async def _refuse_call(self, call: ToolCall, host: Host) -> Mapping[str, Any]:
        """Refuse a call during the drain, on record."""
        async with self.call_log.record(call, host) as entry:
            await entry.wait_for_space()
            raise self.drain.refusal()
        return entry.result

    def _may_have_skills(self) -> bool:
        """Return whether a server has declared skills, or was not connected yet and may declare some."""
        return any(
            upstream.negotiated is None or declared_extension(upstream.negotiated.capabilities, SKILLS) is not None
            for upstream in self._supervisor.upstreams.values()
            if upstream.config.enabled
        )

    def _instructions(self, host: Host) -> str:
        """Return the `instructions` text for a host."""
        view, short = self.views.of(host.principal), self._exposure.is_short(self._host_lists.tools_for(host)[1])
        if not self._finder.configured:
            return first_steps(at_machine=host.frontend == "stdio")
        finder = self._finder
        off, left_out = finder.switched_off(view), finder.left_out(view)
        text = instructions_about(finder.servers(view), short=short, off=off, left_out=left_out)
        self._exposure.note_instructions(view, text)
        return text


def _recorded(method: str) -> MethodHandler:
    """Return the handler of a method that reads from an upstream."""
    return lambda gateway, request: gateway.reads.answer(method, request)


_COMMON: Final[Mapping[str, MethodHandler]] = {
    "tools/list": Dispatcher.list_tools,
    "tools/call": Dispatcher.call_tool,
    "resources/list": Dispatcher.list_resources,
    "resources/templates/list": Dispatcher.list_templates,
    "prompts/list": Dispatcher.list_prompts,
    "skills/list": Dispatcher.list_skills,
    **{method: _recorded(method) for method in sorted(ON_RECORD - {TOOL_CALL})},
}
# Calls and reads have records; a subscription lasts as long as its host.
_COUNTED_APART: Final = ON_RECORD | {"subscriptions/listen"}
# `error.type` of an error without a code, as the semantic conventions have it.
_NO_CODE: Final = "_OTHER"
_LEGACY: Final[Mapping[str, MethodHandler]] = {
    **_COMMON,
    "initialize": Dispatcher.initialize,
    "ping": Dispatcher.ping,
    "logging/setLevel": Dispatcher.set_level,
    "resources/subscribe": Dispatcher.subscribe,
    "resources/unsubscribe": Dispatcher.unsubscribe,
}
_NO_TOOLS: Final = Raw(b"[]")
# Answered during the drain: calls with a recorded refusal; `tools/list`, by which clients check a result they just got.
_TO_THE_END: Final = frozenset({"ping", "tools/list", *ON_RECORD})
_MODERN: Final[Mapping[str, MethodHandler]] = {
    **_COMMON,
    "server/discover": Dispatcher.discover,
    "subscriptions/listen": lambda gateway, request: gateway.listening.listen(request),
}
