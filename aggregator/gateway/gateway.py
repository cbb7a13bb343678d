"""Every method a host may call, one table per era. Doors hand in what came and carry out what this returns."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aggregator.catalog.catalog import Catalog
from aggregator.catalog.listing import Listing
from aggregator.config.model import Config
from aggregator.domain.call import Asked
from aggregator.domain.errors import INVALID_PARAMS, METHOD_NOT_FOUND, HostError
from aggregator.domain.names import Style
from aggregator.domain.principal import Principal
from aggregator.domain.records import ToolRecord
from aggregator.domain.tasks import Tasks
from aggregator.domain.versions import LATEST_LEGACY, LEGACY_VERSIONS, SUPPORTED_VERSIONS, era_of
from aggregator.gateway.changes import Changes, Seen
from aggregator.gateway.consent import Consent
from aggregator.gateway.eras import SERVER_INFO, for_legacy, for_modern, version_spoken
from aggregator.gateway.exposure import Exposure
from aggregator.gateway.finder import Finder, ServerSeen
from aggregator.gateway.host import Host
from aggregator.gateway.journal import Journal
from aggregator.gateway.limits import CONVERSATION_KEY
from aggregator.gateway.meta.all import MetaTools
from aggregator.gateway.pipeline import Pipeline
from aggregator.gateway.resolver import Resolver
from aggregator.gateway.shelf import Shelf
from aggregator.gateway.views import Views
from aggregator.upstream.supervisor import Supervisor
from aggregator.wire.peer import Channel

if TYPE_CHECKING:
    from aggregator.catalog.intent import Match

# Freshness hints of our own results (S/server/utilities/caching); private, since a list depends on who asks.
_CACHE: Final = {"ttlMs": 5_000, "cacheScope": "private"}
_CAPABILITIES: Final = {"tools": {"listChanged": True}}
_INSTRUCTIONS_LIMIT: Final = 2_000
_HOW_TO_FIND: Final = (
    "Most tools are not listed. Find them with search_tools, read their parameters with describe_tools, and call them "
    "with call_tool."
)


@dataclass(frozen=True, slots=True)
class Question:
    """One request, with everything an answer may depend on."""

    host: Host
    params: dict[str, Any]
    channel: Channel
    version: str | None


Handler = Callable[["Gateway", Question], Awaitable[Mapping[str, Any]]]


class Gateway:
    """One per process; it holds no state of any host."""

    def __init__(self, config: Config, supervisor: Supervisor, views: Views, consent: Consent) -> None:
        self._config = config
        self._supervisor = supervisor
        self._shelf = Shelf(supervisor.links.values(), [s.prefix for s in config.servers], config.name_limit)
        self.views = views
        self.journal = Journal()
        self._resolver = Resolver(supervisor, views, config.startup_wait)
        self._pipeline = Pipeline(supervisor.links, self._resolver, views, consent, self.journal)
        self._finder = Finder(config, supervisor.links, views)
        self._meta = MetaTools(self._finder, self._resolver, self._pipeline, read_tool=config.read_tool)
        self._exposure = Exposure(self._meta, config.pinned, config.expose_budget)
        self._expose_at = {door: getattr(config, door).expose or config.expose for door in ("http", "sse", "stdio")}
        self.changes = Changes(self.seen_by)

    @property
    def catalog(self) -> Catalog:
        return self._resolver.catalog

    def restock(self) -> None:
        """An upstream changed: make a new catalog and tell the hosts if it differs."""
        catalog = self._shelf.stock()
        if catalog.tools != self.catalog.tools:
            self._resolver.catalog = catalog
            self._pipeline.restock()
            self._finder.restock(catalog)
            self.changes.announce()

    async def work(self) -> None:
        """What goes on beside the calls, for ever."""
        async with Tasks("the gateway") as tasks:
            tasks.start(self._finder.work())
            await asyncio.to_thread(self._meta.load)
            await self._pipeline.keep_checks_ready()

    async def answer(self, host: Host, method: str, params: dict[str, Any], channel: Channel) -> Mapping[str, Any]:
        """The result of one request, shaped for the era it speaks.

        Raises:
            RpcError: the error to answer with.
        """
        version = version_spoken(host, method, params)
        modern = version is not None and era_of(version) == "modern"
        handler = (_MODERN if modern else _LEGACY).get(method)
        if handler is None:
            raise HostError(METHOD_NOT_FOUND, f"Method not found: {method}", {"method": method})
        result = await handler(self, Question(host, params, channel, version))
        return for_modern(result) if modern else for_legacy(result)

    def hear(self, host: Host, method: str, params: Mapping[str, Any]) -> None:
        """A notification from a host; those about running requests are the door's own."""
        if method == "notifications/initialized" and host.version is not None:
            host.initialized = True

    def seen_by(self, host: Host) -> Seen:
        """The list of this host, as it is shown to it."""
        style, listing = self._shown(host)
        return style, listing.tools

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
        if query is not None:
            return await self._finder.search(view, query, limit or len(self.catalog), server)
        return (self._finder.of_server(view, server) if server is not None else list(self._finder.tools(view)))[:limit]

    async def match_intent(self, principal: Principal, message: str, limit: int = 10) -> "Match":
        """What a message of a person asks for."""
        await self._settled()
        return await self._finder.match(self.views.of(principal), message, limit)

    def servers(self, principal: Principal) -> list[ServerSeen]:
        """The servers an agent may know of."""
        return self._finder.servers(self.views.of(principal))

    def list_costs(self) -> dict[str, tuple[int, int]]:
        """About how many tokens the whole list costs, and what is listed, by agent; of agents with a short one."""
        return self._exposure.costs()

    # -- methods

    async def initialize(self, question: Question) -> Mapping[str, Any]:
        host, params = question.host, question.params
        asked, capabilities, info = (params.get(key) for key in ("protocolVersion", "capabilities", "clientInfo"))
        if not isinstance(asked, str):
            raise HostError(INVALID_PARAMS, "`initialize` needs `protocolVersion` as a string.")
        host.version = asked if asked in LEGACY_VERSIONS else LATEST_LEGACY
        host.capabilities = capabilities if isinstance(capabilities, dict) else {}
        host.client_info = info if isinstance(info, dict) else {}
        return {
            "protocolVersion": host.version,
            "capabilities": _CAPABILITIES,
            "serverInfo": SERVER_INFO,
            "instructions": self._instructions(question.host),
        }

    async def discover(self, question: Question) -> Mapping[str, Any]:
        return {
            "supportedVersions": list(reversed(SUPPORTED_VERSIONS)),
            "capabilities": _CAPABILITIES,
            "instructions": self._instructions(question.host),
            **_CACHE,
        }

    async def ping(self, question: Question) -> Mapping[str, Any]:
        return {}

    async def list_tools(self, question: Question) -> Mapping[str, Any]:
        cursor = question.params.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise HostError(INVALID_PARAMS, "`cursor` must be a string.")
        await self._settled()
        host = question.host
        style, listing = self._shown(host)
        self.changes.told(host, (style, listing.tools))
        page, following = listing.page(style, cursor)
        result: dict[str, Any] = {"tools": page}
        if following is not None:
            result["nextCursor"] = following
        if question.version is not None and era_of(question.version) == "modern":
            result |= _CACHE
        return result

    async def call_tool(self, question: Question) -> Mapping[str, Any]:
        host, params = question.host, question.params
        view = self.views.of(host.principal)
        asked = Asked(
            host.principal,
            params,
            question.version or LATEST_LEGACY,
            view.style(host.names),
            _conversation(host, params),
        )
        if asked.name in self._meta:
            return await self._meta.call(asked, view, host, question.channel)
        return await self._pipeline.call_tool(asked, host, question.channel)

    async def listen(self, question: Question) -> Mapping[str, Any]:
        return await self.changes.listen(question.host, question.params, question.channel)

    def _shown(self, host: Host) -> tuple[Style, Listing]:
        """How names are spelled for this host, and what is listed."""
        view = self.views.of(host.principal)
        expose = view.expose(self._expose_at.get(host.door, self._config.expose))
        return view.style(host.names), self._exposure.of(view, self.views.listing(view, self.catalog), expose)

    async def _settled(self) -> None:
        await self._supervisor.settled(self._config.startup_wait, self._config.straggler_wait)

    def _instructions(self, host: Host) -> str:
        """What a model should know before its first call: which servers it has, in the operator's words."""
        view = self.views.of(host.principal)
        shown = {tool.server for tool in self.views.listing(view, self.catalog).tools}
        servers = [
            server
            for server in self._config.servers
            if server.enabled
            and (server.id in shown or (not self._supervisor.links[server.id].shown and view.might_use(server)))
        ]
        lines = ["Tools of several servers, each named after its server:"]
        lines += [f"- {s.prefix}: {s.description}" if s.description != s.key else f"- {s.prefix}" for s in servers]
        if self._exposure.is_short(self._shown(host)[1]):
            lines.insert(0, _HOW_TO_FIND)
        text = "\n".join(lines)
        return text if len(text) <= _INSTRUCTIONS_LIMIT else text[: _INSTRUCTIONS_LIMIT - 1] + "…"


def _conversation(host: Host, params: Mapping[str, Any]) -> str | None:
    """What a call belongs to: what the host names, else its session."""
    meta = params.get("_meta")
    named = meta.get(CONVERSATION_KEY) if isinstance(meta, dict) else None
    return named if isinstance(named, str) and named else host.session


_COMMON: Final[Mapping[str, Handler]] = {"tools/list": Gateway.list_tools, "tools/call": Gateway.call_tool}
_LEGACY: Final[Mapping[str, Handler]] = {**_COMMON, "initialize": Gateway.initialize, "ping": Gateway.ping}
_MODERN: Final[Mapping[str, Handler]] = {
    **_COMMON,
    "server/discover": Gateway.discover,
    "subscriptions/listen": Gateway.listen,
}
