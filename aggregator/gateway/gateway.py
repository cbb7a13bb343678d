"""Every method a host may call, one table per era. Doors hand in what came and carry out what this returns."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aggregator.catalog.catalog import Catalog
from aggregator.config.model import Config, ServerConfig
from aggregator.domain.call import Asked
from aggregator.domain.errors import INVALID_PARAMS, METHOD_NOT_FOUND, HostError
from aggregator.domain.principal import Principal
from aggregator.domain.records import ToolRecord
from aggregator.domain.versions import LATEST_LEGACY, LEGACY_VERSIONS, SUPPORTED_VERSIONS, era_of
from aggregator.gateway.changes import Changes, Seen
from aggregator.gateway.consent import Consent
from aggregator.gateway.eras import SERVER_INFO, for_legacy, for_modern, version_spoken
from aggregator.gateway.host import Host
from aggregator.gateway.limits import CONVERSATION_KEY
from aggregator.gateway.pipeline import Pipeline
from aggregator.gateway.shelf import Shelf
from aggregator.gateway.views import View, Views
from aggregator.upstream.supervisor import Supervisor
from aggregator.wire.peer import Channel

# Freshness hints of our own results (S/server/utilities/caching); private, since a list depends on who asks.
_CACHE: Final = {"ttlMs": 5_000, "cacheScope": "private"}
_CAPABILITIES: Final = {"tools": {"listChanged": True}}
_INSTRUCTIONS_LIMIT: Final = 2_000


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
        self._pipeline = Pipeline(supervisor, views, consent, config.startup_wait)
        self.changes = Changes(self.seen_by)

    @property
    def catalog(self) -> Catalog:
        return self._pipeline.catalog

    def restock(self) -> None:
        """An upstream changed: make a new catalog and tell the hosts if it differs."""
        catalog = self._shelf.stock()
        if catalog.tools != self.catalog.tools:
            self._pipeline.restock(catalog)
            self.changes.announce()

    async def work(self) -> None:
        """What goes on beside the calls, for ever."""
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
        """The tools this host's agent may call, as they are shown to it."""
        view = self.views.of(host.principal)
        return view.style(host.names), self.views.listing(view, self.catalog).tools

    def called(self, principal: Principal, name: str) -> ToolRecord | None:
        """The tool a name stands for, for doors that compare headers with its schema; None for what is not visible."""
        return self._pipeline.called(self.views.of(principal), name)

    async def find(self, principal: Principal, name: str) -> ToolRecord:
        """The same, waiting for a server that is still starting.

        Raises:
            UnknownTool, NotAllowed, UpstreamUnavailable: as a call of it would.
        """
        return await self._pipeline.find(self.views.of(principal), name, "canonical")

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
            "instructions": self._instructions(question.host.principal),
        }

    async def discover(self, question: Question) -> Mapping[str, Any]:
        return {
            "supportedVersions": list(reversed(SUPPORTED_VERSIONS)),
            "capabilities": _CAPABILITIES,
            "instructions": self._instructions(question.host.principal),
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
        view = self.views.of(host.principal)
        style, listing = view.style(host.names), self.views.listing(view, self.catalog)
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
        style = self.views.of(host.principal).style(host.names)
        asked = Asked(host.principal, params, question.version or LATEST_LEGACY, style, _conversation(host, params))
        return await self._pipeline.call_tool(asked, host, question.channel)

    async def listen(self, question: Question) -> Mapping[str, Any]:
        return await self.changes.listen(question.host, question.params, question.channel)

    async def _settled(self) -> None:
        await self._supervisor.settled(self._config.startup_wait, self._config.straggler_wait)

    def _instructions(self, principal: Principal) -> str:
        """What a model should know before its first call: which servers it has, in the operator's words."""
        view = self.views.of(principal)
        shown = {tool.server for tool in self.views.listing(view, self.catalog).tools}
        servers = [
            server
            for server in self._config.servers
            if server.enabled
            and (server.id in shown or (not self._supervisor.links[server.id].shown and _open(view, server)))
        ]
        lines = ["Tools of several servers, each named after its server:"]
        lines += [f"- {s.prefix}: {s.description}" if s.description != s.key else f"- {s.prefix}" for s in servers]
        text = "\n".join(lines)
        return text if len(text) <= _INSTRUCTIONS_LIMIT else text[: _INSTRUCTIONS_LIMIT - 1] + "…"


def _open(view: View, server: ServerConfig) -> bool:
    """Whether an agent may call whatever a server that is not there yet will have."""
    return view.sees(ToolRecord(server.id, server.prefix, "?", {}, {}, server.timeout))


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
