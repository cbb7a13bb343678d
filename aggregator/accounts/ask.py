"""The way of a host to an account that a server requires: its user visits a page that connects it.

| host | what it gets |
| --- | --- |
| handshake eras, can open pages | the page, while its request waits; then the request is sent |
| 2026-07-28, can open pages | the page as an input request; it comes back, and the request waits for the account |
| any other | a result with one sentence about it, and the link |

Law: a link goes only to its own agent, and into no log. It connects an account of that caller alone; an operator
connects an account that all agents share.
"""

import asyncio
import logging
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from aggregator.accounts.connect_links import CONNECT
from aggregator.accounts.grants.values import ConnectLink
from aggregator.config.server_config import ServerConfig
from aggregator.domain.abilities import ELICIT
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import RpcError
from aggregator.domain.grant_owner import GrantOwner, owner_of
from aggregator.domain.missing import LoginRequired
from aggregator.domain.principal import LOCAL, Principal
from aggregator.gateway.ask.confirm import PATIENCE
from aggregator.gateway.ask.next_round import MAY_ASK, CallTarget, Round
from aggregator.gateway.ask.questions import worded
from aggregator.gateway.ask.upstream_caller import RequestCaller
from aggregator.storage.errors import StorageError
from aggregator.upstream.upstream import Upstream

log = logging.getLogger(__name__)

# Seconds that a request waits for an account. Many hosts give one up after a minute in which they hear nothing of it.
WAIT: Final = 50.0
REPORT_EVERY: Final = 10.0
_PROGRESS: Final = 1e-6
# Who may connect an account that all agents use.
_OPERATOR: Final = "operator"


class Connecting(Protocol):
    """The part of `Grants` by which a caller connects an account."""

    def saw(self, principal: Principal) -> None:
        """Take note of a caller's token, for servers whose tokens are exchanged for it."""
        ...

    async def begin(
        self, server: ServerConfig, owner: GrantOwner, asked_by: Principal, *, scopes: Sequence[str] = ()
    ) -> ConnectLink:
        """Return a new one-time link with which `asked_by` connects an account of `owner`."""
        ...

    async def wait(self, owner: GrantOwner, server: ServerConfig, seconds: float) -> bool:
        """Wait until the owner has a usable account that is newer than this call; False on timeout."""
        ...


class MissingAccounts:
    """The answers to requests that need an account which is not connected."""

    def __init__(self, connecting: Connecting | None = None) -> None:
        self._connecting = connecting

    def __repr__(self) -> str:
        return f"<MissingAccounts {'' if self._connecting is not None else 'without a way to connect any'}>"

    def note(self, target: CallTarget) -> None:
        """Hand over the token of the caller, before a request to a server whose issuer exchanges it."""
        auth = target.upstream.config.auth
        if auth is not None and auth.how.exchanges and self._connecting is not None:
            self._connecting.saw(target.principal)

    async def to_list(self, upstream: Upstream, principal: Principal) -> LoginRequired | None:
        """Return the error with a link, if a server can be listed after this caller has connected an account."""
        server = upstream.config
        if self._connecting is None or server.auth is None or not upstream.needs_account:
            return None
        owner = owner_of(principal, server.auth.per)
        useful = _is_operator(principal) if owner.kind == "shared" else server.auth.lists == "connected"
        if not useful:
            return None
        missing = LoginRequired(server.id, f"{server.id} needs an account before its tools can be listed or called.")
        try:
            link = await self._connecting.begin(await upstream.completed(), owner, principal)
        except StorageError as error:
            log.warning("%s: no link can be made: %s", server.id, error)
            return _without_link(missing)
        return _with_link(missing, link, link.url) if link.url is not None else _without_link(missing, link.command)

    async def obtain(
        self, target: CallTarget, caller: RequestCaller, missing: LoginRequired, *, resumed: bool
    ) -> Round | None:
        """Return None after the account is connected, so that the request can be sent; or a round that asks the host.

        resumed: the host has come back after the question.

        Raises:
            LoginRequired: neither is possible; it contains the next step.
        """
        server = target.upstream.config
        if self._connecting is None or server.auth is None:
            raise _without_link(missing) from missing
        owner = owner_of(target.principal, server.auth.per)
        if owner.kind == "shared" and not _is_operator(target.principal):
            raise _without_link(missing) from missing
        server = await target.upstream.completed()
        if resumed and await self._wait(owner, server, caller, WAIT):
            return None
        try:
            link = await self._connecting.begin(server, owner, target.principal, scopes=missing.scopes)
        except StorageError as error:
            log.warning("%s: no link can be made: %s", server.id, error)
            raise _without_link(missing) from missing
        if link.url is None:
            raise _without_link(missing, link.command) from missing
        if resumed or not caller.abilities.urls or target.method not in MAY_ASK:
            raise _with_link(missing, link, link.url) from missing
        page = {
            "mode": "url",
            "message": f"Connect {_whose(owner)} account at {server.id}, which this request needs.",
            "url": link.url,
            "elicitationId": secrets.token_urlsafe(12),
        }
        if caller.modern and caller.parked is None:
            asked = {CONNECT: {"method": ELICIT, "params": worded(server.id, ELICIT, page, modern=True)}}
            return Round(asked, None, {"resultType": "input_required"}, pages=True)
        if await self._visited(owner, server, caller, page):
            return None
        raise _with_link(missing, link, link.url) from missing

    async def _visited(
        self, owner: GrantOwner, server: ServerConfig, caller: RequestCaller, page: dict[str, Any]
    ) -> bool:
        """Send the user to the page while the request waits; return True after the account is connected."""
        assert self._connecting is not None
        async with Tasks("an account that is being connected") as tasks:
            # Before the question to the host: it may answer only after the sign-in.
            waiting = tasks.start(self._connecting.wait(owner, server, PATIENCE + WAIT))
            try:
                answer = await caller.ask_for_us(server.id, ELICIT, page)
            except RpcError as error:
                log.info("%s: a person could not be sent to the page: %s", server.id, error.message)
                return False
            if answer.get("action") != "accept":
                return False
            connected = await self._reported(waiting, caller)
        if connected:
            caller.on_elicitation_complete(server.id, page["elicitationId"], running=True)
        return connected

    async def _wait(self, owner: GrantOwner, server: ServerConfig, caller: RequestCaller, seconds: float) -> bool:
        assert self._connecting is not None
        async with Tasks("an account that is being connected") as tasks:
            return await self._reported(tasks.start(self._connecting.wait(owner, server, seconds)), caller)

    async def _reported(self, waiting: "asyncio.Task[bool]", caller: RequestCaller) -> bool:
        """Wait, as long as the host can be expected to, and report progress to one that wants it."""
        loop = asyncio.get_running_loop()
        until = loop.time() + (WAIT if caller.token is None else PATIENCE)
        while not waiting.done() and loop.time() < until:
            if caller.token is not None and caller.channel is not None:
                caller.reported = (caller.reported or 0.0) + _PROGRESS
                said = {"progressToken": caller.token, "progress": caller.reported, "message": "Waits for the account."}
                caller.channel.notify("notifications/progress", said)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(until, loop.time() + REPORT_EVERY)):
                    await asyncio.shield(waiting)
        return waiting.done() and waiting.result()


def _is_operator(principal: Principal) -> bool:
    """Return True if the caller may connect an account that all agents use: without policies there is one caller."""
    return principal == LOCAL or _OPERATOR in principal.roles


def _whose(owner: GrantOwner) -> str:
    return "the" if owner.kind == "shared" else "your"


def _with_link(missing: LoginRequired, link: ConnectLink, url: str) -> LoginRequired:
    """Return the error with a link. The audit keeps nothing of its advice (`recording/connect_links.py`)."""
    error = _worded(missing, url=url, expires=link.expires)
    error.advice = f"A person has to open {url} in a browser; when that is done, you may try again."
    return error


def _without_link(missing: LoginRequired, command: str = "") -> LoginRequired:
    command = command or missing.details.get("command") or f"aggregator connect {missing.server}"
    error = _worded(missing, command=command)
    error.advice = f"An operator has to run `{command}`; when that is done, you may try again."
    return error


def _worded(missing: LoginRequired, **details: Any) -> LoginRequired:
    """Return a new error, since several requests may have got the same one."""
    merged = {**missing.details, **details}
    return LoginRequired(missing.server, missing.message, said=missing.said, scopes=missing.scopes, **merged)
