"""The gateway inside another Python program: lists and calls the tools of one agent without a wire.

Law: a call goes through the same pipeline as one of a host. Nothing here decides, and nothing knows a framework.
"""

import asyncio
import logging
import os
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Final, Literal, TypeVar
from uuid import uuid4

from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.config.load import Loaded, find_config, load_found, load_mapping, must_start
from aggregator.config.servers.names import source_of
from aggregator.domain.call import CONVERSATION_KEY
from aggregator.domain.errors import INTERNAL_ERROR, RpcError
from aggregator.domain.names import Style
from aggregator.domain.principal import Principal
from aggregator.domain.records import ToolRecord
from aggregator.domain.versions import LATEST_MODERN, META_CLIENT_CAPABILITIES, META_VERSION
from aggregator.gateway.host import Host
from aggregator.gateway.views.list_changed import notification
from aggregator.identity.identify import RequestFacts
from aggregator.identity.launch import launch_agent
from aggregator.pins.app.locked import lock_beside
from aggregator.redaction.log_messages import message_of
from aggregator.redaction.redactor import Redactor
from aggregator.storage.locate import default_url
from aggregator.wire.codec import decode, encode
from aggregator.wire.peer import NoBackChannel
from aggregator.wire.pending_request import OnProgress

log = logging.getLogger(__name__)

T = TypeVar("T")

Source = str | os.PathLike[str] | Mapping[str, Any] | None

_ROOT_LOGGER: Final = "aggregator"
"""A configuration: the path of its file, the object that such a file holds, or None for the file that is found."""

FRONTEND: Final = "inprocess"
# The most input requests of one call before it fails.
_INPUT_REQUESTS: Final = 5
# Seconds after which an event loop that does not respond counts as blocked.
_RESPONSE_TIME: Final = 5.0

# Shows a form to the user: the params of `elicitation/create` in, its result out.
Elicit = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool as the agent is shown it.

    `definition` is the whole tool, with the name to call it by. `record` is None for meta tools. `source` is `local`
    for a server in this process, `mcp` for any other, `aggregator` for meta tools.
    """

    definition: Mapping[str, Any]
    record: ToolRecord | None
    source: Literal["local", "mcp", "aggregator"]

    @property
    def schema(self) -> dict[str, Any]:
        """The schema of the arguments, always with `properties`, which frameworks rely on."""
        return with_properties(self.definition["inputSchema"])


class InProcessHost:
    """A host in this process, for one agent. It belongs to the event loop it was opened in; others may use it too."""

    def __init__(self, app: App, principal: Principal, names: Style) -> None:
        self._app = app
        self._names = names
        self._notifications = _Notifications()
        self._host = Host(
            FRONTEND, names, principal, initialized=True, connection=self._notifications, session=uuid4().hex
        )
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._list_changed = self._notifications.changed
        self._closed = False
        self._others: dict[str, InProcessHost] = {}
        app.gateway.list_changes.attach(self._host)

    def __repr__(self) -> str:
        return f"<Inside {'closed' if self._closed else 'open'}, agent {self._host.principal.agent_id}>"

    def close(self) -> None:
        """Refuse every further call, of every agent, and end each wait in `changed`."""
        for other in self._others.values():
            other.close()
        self._closed = True
        self._app.gateway.list_changes.detach(self._host)
        self._list_changed.set()

    async def offers(self) -> list[ListedTool]:
        """Return the listed tools in their order; servers that are starting are waited for, up to `startup_wait`."""
        return await self._in_own_loop(self._offers())

    async def tools(self, query: str | None, server: str | None, limit: int | None) -> list[ToolRecord]:
        """Return the tools that the agent may call, listed or not; with a query, those that match it, best first."""
        principal = self._host.principal
        return await self._in_own_loop(self._app.gateway.tools(principal, query=query, server=server, limit=limit))

    def as_agent(self, agent: str) -> "InProcessHost":
        """Return a host of another agent on the same gateway, usable as long as this one is open.

        Raises:
            OperatorError: that cannot be the name of an agent.
            RuntimeError: the gateway is closed, or runs in another event loop.
        """
        self._check_open()
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("Another agent is made in the event loop that the gateway was opened in.")
        other = self._others.get(agent)
        if other is None:
            other = self._others[agent] = InProcessHost(self._app, _principal(self._app, agent, {}), self._names)
        return other

    async def changed(self) -> bool:
        """Wait until the list differs from when it was read last; return False if the gateway is closed instead."""
        return not self._closed and await self._in_own_loop(self._changed())

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        conversation: str | None = None,
        elicit: Elicit | None = None,
        progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """Call a tool and return the whole result, in the form of 2026-07-28. Cancelling the wait cancels the call.

        `conversation` names what limits per conversation count by; `elicit` is called in the caller's own loop for a
        confirmation; `progress` is called in the gateway's loop with the params of each progress notification.

        Raises:
            RpcError: there is no such tool, or the server answered with a JSON-RPC error.
            RuntimeError: the gateway was closed.
        """
        meta: dict[str, Any] = {} if conversation is None else {CONVERSATION_KEY: conversation}
        if progress is not None:
            meta["progressToken"] = name
        params: dict[str, Any] = {"name": name, "arguments": dict(arguments), "_meta": meta | _envelope(elicit)}
        state: Any = None
        try:
            for _ in range(_INPUT_REQUESTS):
                result = await self._in_own_loop(self._request("tools/call", params, progress))
                if elicit is None or result.get("resultType") != "input_required":
                    return result
                asked, state = result.get("inputRequests", {}), result.get("requestState")
                answers = {key: await elicit(question["params"]) for key, question in asked.items()}
                params |= {"inputResponses": answers, "requestState": state}
            raise RpcError(INTERNAL_ERROR, f"{name} was given up: it asked a person {_INPUT_REQUESTS} times.")
        except BaseException:
            # The server may still wait for an answer, which this program does not bring it any more.
            with suppress(RuntimeError):
                # A gateway whose loop is closed has ended its calls.
                self._loop.call_soon_threadsafe(self._app.gateway.input_requests.abandon, state)
            raise

    def from_thread(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop of the gateway while this thread waits, and return its result.

        Raises:
            RuntimeError: this is the thread of that loop, or the loop does not respond.
        """
        alive = threading.Event()
        try:
            self._check_open()
            if threading.get_ident() == self._thread:
                raise RuntimeError("The tools' event loop runs in this thread: await `ainvoke`, or call from another.")
            self._loop.call_soon_threadsafe(alive.set)
            if not alive.wait(_RESPONSE_TIME):
                raise RuntimeError(
                    "The tools' event loop is blocked: await `ainvoke`, or call them in a thread by asyncio.to_thread."
                )
        except RuntimeError:
            work.close()
            raise
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise

    async def _in_own_loop(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            self._check_open()
        except RuntimeError:
            work.close()
            raise
        if asyncio.get_running_loop() is self._loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("The aggregator that these tools belong to was closed.")

    async def _offers(self) -> list[ListedTool]:
        self._list_changed.clear()
        offers: list[ListedTool] = []
        cursor: dict[str, Any] = {}
        while True:
            page = await self._request("tools/list", {**cursor, "_meta": _envelope(None)}, None)
            offers += map(self._offer, page["tools"])
            if "nextCursor" not in page:
                return offers
            cursor = {"cursor": page["nextCursor"]}

    def _offer(self, definition: Mapping[str, Any]) -> ListedTool:
        record = self._app.gateway.called(self._host.principal, definition["name"])
        if record is None:
            return ListedTool(definition, None, "aggregator")
        return ListedTool(definition, record, source_of(self._app.upstreams[record.server].config.type))

    async def _changed(self) -> bool:
        await self._list_changed.wait()
        return not self._closed

    async def _request(self, method: str, params: dict[str, Any], progress: OnProgress | None) -> dict[str, Any]:
        answer = await self._app.gateway.answer(self._host, method, params, _ProgressChannel(progress))
        # Parts that the answer has as encoded bytes become plain values, and nothing is shared with the catalog.
        plain: dict[str, Any] = decode(encode(answer), inf)
        return plain


class _Notifications:
    """The connection of an in-process host. `changed` is set when its list of tools changed."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Take note of a changed list of tools."""
        if method == notification("tools"):
            self.changed.set()

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Refuse: a program answers requests only during its own calls."""
        raise NoBackChannel


@asynccontextmanager
async def open_inside(config: Source, agent: str | None, names: Style) -> AsyncIterator[InProcessHost]:
    """Run the gateway of a configuration, for one agent, as long as the context is open.

    Without a configuration, use the file that the command line would use; without an agent, `AGGREGATOR_AGENT` or
    `local`. The log of the aggregator goes to the handlers of this program, without secrets.

    Raises:
        OperatorError: the configuration cannot be read, or that cannot be the name of an agent.
    """
    environ = {"AGGREGATOR_PYTHON": sys.executable, **os.environ}
    loaded, origin = _read(config, environ)
    must_start(loaded)
    with redacted_log(loaded.redactor):
        log.info("%s", origin)
        for problem in loaded.problems:
            log.warning("%s", problem)
        storage = loaded.storage or default_url(environ)
        # A mapping has no folder with policies beside it: only those that it names count.
        policies = None if isinstance(config, Mapping) and "policies" not in config else loaded.policies
        app = build_app(
            loaded.config,
            policies,
            storage,
            keeps_records=True,
            redactor=loaded.redactor,
            lock=lock_beside(loaded.path),
        )
        principal = _principal(app, agent, environ)
        async with app.running():
            inside = InProcessHost(app, principal, names)
            try:
                yield inside
            finally:
                inside.close()


def _read(config: Source, environ: Mapping[str, str]) -> tuple[Loaded, object]:
    """Return the configuration, and its origin for the log."""
    if isinstance(config, Mapping):
        return load_mapping(config, environ), "configuration: handed over by the program"
    found = find_config(Path(config) if config is not None else None, Path.cwd(), environ)
    return load_found(found, environ), found


def _principal(app: App, agent: str | None, environ: Mapping[str, str]) -> Principal:
    """Return the principal of an agent. Raises OperatorError when the name cannot be one of an agent."""
    principal = app.access.authenticate(RequestFacts("stdio", launch_agent=launch_agent(agent, environ)))
    assert isinstance(principal, Principal), "a program may run itself as any agent"
    return principal


def with_properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with `properties`, empty ones if it has none."""
    return dict(schema) if "properties" in schema else {**schema, "properties": {}}


@dataclass(frozen=True, slots=True)
class _ProgressChannel:
    """The channel of one call, for progress only: input requests are results in the revision 2026-07-28."""

    progress: OnProgress | None
    request_id: str = FRONTEND

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        if self.progress is not None and method == "notifications/progress":
            self.progress({key: value for key, value in params.items() if key != "progressToken"})

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise NoBackChannel


def _envelope(elicit: Elicit | None) -> dict[str, Any]:
    return {META_VERSION: LATEST_MODERN, META_CLIENT_CAPABILITIES: {} if elicit is None else {"elicitation": {}}}


@contextmanager
def redacted_log(redact: Redactor) -> Iterator[None]:
    """Redact the log records of the aggregator when they are created, before any handler of the program sees them."""
    before = logging.getLogRecordFactory()

    def make(name: str, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = before(name, *args, **kwargs)
        if name.partition(".")[0] == _ROOT_LOGGER:
            record.msg, record.args = redact(message_of(record, redact)), ()
            if record.exc_info:
                # The exception itself is removed: a handler may format its message again.
                record.exc_text = redact("".join(traceback.format_exception(*record.exc_info)).rstrip())
                record.exc_info = None
        return record

    logging.setLogRecordFactory(make)
    try:
        yield
    finally:
        # A factory that the program has set since then calls ours, and stays.
        if logging.getLogRecordFactory() is make:
            logging.setLogRecordFactory(before)
