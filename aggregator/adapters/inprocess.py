"""The gateway inside another Python program: one agent's tools, listed, called and heard of without a door.

Law: a call goes the road of every call. Nothing here decides, and nothing here knows a framework.
"""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Final, Literal, TypeVar
from uuid import uuid4

from aggregator.adapters.discreet import discreet
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
from aggregator.identity.identify import RequestFacts, launch_agent
from aggregator.storage.locate import default_url
from aggregator.wire.codec import decode, encode
from aggregator.wire.peer import NoBackChannel, OnProgress

log = logging.getLogger(__name__)

T = TypeVar("T")

Source = str | os.PathLike[str] | Mapping[str, Any] | None
"""A configuration: the path of its file, the object that such a file holds, or None for the file that is found."""

Elicit = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Puts a form to a person: the params of `elicitation/create` in, its result out."""

DOOR: Final = "inprocess"
# How often one call may ask before it is given up.
_QUESTIONS: Final = 5
# A loop that takes longer to say that it runs is taken for blocked.
_SIGN_OF_LIFE: Final = 5.0


@dataclass(frozen=True, slots=True)
class ListedTools:
    """A tool as it is shown to the agent: `definition` whole, with the name to call it by.

    `record` is None for the aggregator's own tools; `source` says what kind of server it is from: `local`, in
    this process, `mcp`, any other, or the aggregator itself.
    """

    definition: Mapping[str, Any]
    record: ToolRecord | None
    source: Literal["local", "mcp", "aggregator"]

    @property
    def schema(self) -> dict[str, Any]:
        """The schema of the arguments with `properties`, which frameworks read without asking whether it has any."""
        return with_properties(self.definition["inputSchema"])


class InProcessHost:
    """One agent in this process. It belongs to the event loop it was opened in, and may be used from any other."""

    def __init__(self, app: App, principal: Principal, names: Style) -> None:
        self._app = app
        self._names = names
        self._host = Host(DOOR, names, principal, initialized=True, notify=self._hear, session=uuid4().hex)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._news = asyncio.Event()
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
        self._news.set()

    async def offers(self) -> list[ListedTools]:
        """What the agent may call now, in the order it is listed. Waits for servers that are starting, not for long."""
        return await self._at_home(self._offers())

    async def tools(self, query: str | None, server: str | None, limit: int | None) -> list[ToolRecord]:
        """All that the agent may call, however little is listed; with a query, what fits it, best first."""
        principal = self._host.principal
        return await self._at_home(self._app.gateway.tools(principal, query=query, server=server, limit=limit))

    def as_agent(self, agent: str) -> "InProcessHost":
        """Another agent of the same gateway, as long as this one is open.

        Raises:
            OperatorError: that cannot be the name of an agent.
            RuntimeError: the gateway was closed, or this is not its event loop.
        """
        self._check_open()
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("Another agent is made in the event loop that the gateway was opened in.")
        other = self._others.get(agent)
        if other is None:
            other = self._others[agent] = InProcessHost(self._app, _principal(self._app, agent, {}), self._names)
        return other

    async def changed(self) -> bool:
        """Wait until the list is another than when it was last read. False: the gateway was closed instead."""
        return not self._closed and await self._at_home(self._changed())

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        conversation: str | None = None,
        elicit: Elicit | None = None,
        heard: OnProgress | None = None,
    ) -> dict[str, Any]:
        """The result of `tools/call`, whole, as 2026-07-28 has it. Cancelling the wait cancels the call.

        `conversation` is what limits per conversation count by; `elicit` is asked, in the caller's own loop, when a
        person has to agree; `heard` gets each progress notification, in the gateway's loop.

        Raises:
            RpcError: there is no such tool, or the server answered with an error of the protocol.
            RuntimeError: the gateway was closed.
        """
        meta: dict[str, Any] = {} if conversation is None else {CONVERSATION_KEY: conversation}
        if heard is not None:
            meta["progressToken"] = name
        params: dict[str, Any] = {"name": name, "arguments": dict(arguments), "_meta": meta | _envelope(elicit)}
        for _ in range(_QUESTIONS):
            result = await self._at_home(self._ask("tools/call", params, heard))
            if elicit is None or result.get("resultType") != "input_required":
                return result
            asked = result.get("inputRequests", {})
            answers = {key: await elicit(question["params"]) for key, question in asked.items()}
            params |= {"inputResponses": answers, "requestState": result.get("requestState")}
        raise RpcError(INTERNAL_ERROR, f"{name} was given up: it asked a person {_QUESTIONS} times.")

    def from_thread(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, done in the loop of the gateway while this thread waits.

        Raises:
            RuntimeError: this is that loop's own thread, or the loop does not run.
        """
        alive = threading.Event()
        try:
            self._check_open()
            if threading.get_ident() == self._thread:
                raise RuntimeError("The tools' event loop runs in this thread: await `ainvoke`, or call from another.")
            self._loop.call_soon_threadsafe(alive.set)
            if not alive.wait(_SIGN_OF_LIFE):
                raise RuntimeError(
                    "The tools' event loop is blocked: await `ainvoke`, or run what calls them with asyncio.to_thread."
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

    async def _at_home(self, work: Coroutine[Any, Any, T]) -> T:
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

    async def _offers(self) -> list[ListedTools]:
        self._news.clear()
        offers: list[ListedTools] = []
        cursor: dict[str, Any] = {}
        while True:
            page = await self._ask("tools/list", {**cursor, "_meta": _envelope(None)}, None)
            offers += map(self._offer, page["tools"])
            if "nextCursor" not in page:
                return offers
            cursor = {"cursor": page["nextCursor"]}

    def _offer(self, definition: Mapping[str, Any]) -> ListedTools:
        record = self._app.gateway.called(self._host.principal, definition["name"])
        if record is None:
            return ListedTools(definition, None, "aggregator")
        return ListedTools(definition, record, source_of(self._app.upstreams[record.server].config.type))

    async def _changed(self) -> bool:
        await self._news.wait()
        return not self._closed

    async def _ask(self, method: str, params: dict[str, Any], heard: OnProgress | None) -> dict[str, Any]:
        answer = await self._app.gateway.answer(self._host, method, params, _Spelling(heard))
        # What is placed in an answer as bytes becomes plain values here, and nothing is shared with the catalog.
        plain: dict[str, Any] = decode(encode(answer), inf)
        return plain

    def _hear(self, method: str, params: Mapping[str, Any]) -> None:
        if method == notification("tools"):
            self._news.set()


@asynccontextmanager
async def open_inside(config: Source, agent: str | None, names: Style) -> AsyncIterator[InProcessHost]:
    """The gateway of this configuration, for this agent, as long as the context is open.

    Without a configuration it is looked for where the command line looks; without an agent `AGGREGATOR_AGENT` names it,
    or it is `local`. What the aggregator logs goes to this program's own handlers, without the secrets.

    Raises:
        OperatorError: the configuration cannot be read, or that cannot be the name of an agent.
    """
    environ = {"AGGREGATOR_PYTHON": sys.executable, **os.environ}
    loaded, told = _read(config, environ)
    must_start(loaded)
    with discreet(loaded.redactor):
        log.info("%s", told)
        for problem in loaded.problems:
            log.warning("%s", problem)
        storage = loaded.storage or default_url(environ)
        # A mapping stands in no folder that could have policies beside it: it has those that it names.
        policies = None if isinstance(config, Mapping) and "policies" not in config else loaded.policies
        app = build_app(loaded.config, policies, storage, keeps_records=True, redactor=loaded.redactor)
        principal = _principal(app, agent, environ)
        async with app.running():
            inside = InProcessHost(app, principal, names)
            try:
                yield inside
            finally:
                inside.close()


def _read(config: Source, environ: Mapping[str, str]) -> tuple[Loaded, object]:
    """The configuration, and what is told of where it came from."""
    if isinstance(config, Mapping):
        return load_mapping(config, environ), "configuration: handed over by the program"
    found = find_config(Path(config) if config is not None else None, Path.cwd(), environ)
    return load_found(found, environ), found


def _principal(app: App, agent: str | None, environ: Mapping[str, str]) -> Principal:
    """Raises OperatorError when that cannot be the name of an agent."""
    principal = app.access.authenticate(RequestFacts("stdio", launch_agent=launch_agent(agent, environ)))
    assert isinstance(principal, Principal), "a program may run itself as any agent"
    return principal


def with_properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with `properties`, whether or not it has any."""
    return dict(schema) if "properties" in schema else {**schema, "properties": {}}


@dataclass(frozen=True, slots=True)
class _Spelling:
    """The way back of one call. Questions come as results (2026-07-28), so nothing is asked here."""

    heard: OnProgress | None
    request_id: str = DOOR

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        if self.heard is not None and method == "notifications/progress":
            self.heard({key: value for key, value in params.items() if key != "progressToken"})

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise NoBackChannel


def _envelope(elicit: Elicit | None) -> dict[str, Any]:
    return {META_VERSION: LATEST_MODERN, META_CLIENT_CAPABILITIES: {} if elicit is None else {"elicitation": {}}}
