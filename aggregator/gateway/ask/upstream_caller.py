"""The host of a running call, as seen by its upstream: its abilities, and the channel to it."""

import asyncio
import logging
from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any, Final

from aggregator.domain.abilities import ELICIT, HostCapabilities, abilities_of, lacking
from aggregator.domain.errors import INVALID_REQUEST, METHOD_NOT_FOUND, RpcError
from aggregator.domain.grant_owner import GrantOwner, Per, owner_of
from aggregator.domain.log_levels import DEFAULT, rank
from aggregator.domain.versions import (
    LATEST_LEGACY,
    META_CLIENT_CAPABILITIES,
    META_LOG_LEVEL,
    Era,
    era_of,
)
from aggregator.gateway.ask.confirm import PATIENCE
from aggregator.gateway.ask.questions import answered, page_id, worded
from aggregator.gateway.eras import received
from aggregator.gateway.hooks import NO_QUESTIONS, Questions
from aggregator.gateway.host import AskHost, Host
from aggregator.wire.peer import Channel, NoBackChannel, PeerGone
from aggregator.wire.pieces import brief

log = logging.getLogger(__name__)

_SAID: Final = "notifications/message"
_COMPLETED: Final = "notifications/elicitation/complete"


class RequestCaller:
    """A `Caller`: one request of a host. For a parked request, the `channel` comes and goes.

    `parked` stores a question that the host gets with the result of its request. `lacked` is the capability that an
    upstream's question would have required. `reported` is the last progress sent to the host while its call waited for
    confirmation. `questions` decides about questions of the upstream.
    """

    __slots__ = (
        "abilities", "channel", "host", "identity", "lacked", "level", "modern", "parked", "questions", "reported",
        "sent_as", "sent_in", "sent_over", "token",
    )  # fmt: skip

    def __init__(self, host: Host, version: str | None, params: Mapping[str, Any], channel: Channel | None) -> None:
        self.host = host
        self.channel = channel
        self.modern = version is not None and era_of(version) == "modern"
        # A question to a host of 2026-07-28 is part of the answer to one call, whatever the host says of itself.
        self.identity: Hashable = object() if self.modern else host.original
        self.parked: AskHost | None = None
        self.questions: Questions = NO_QUESTIONS
        self.lacked: dict[str, Any] | None = None
        self.reported: float | None = None
        self.sent_in: str | None = None
        self.sent_as: int | None = None
        self.sent_over: str | None = None
        meta = params.get("_meta")
        if not isinstance(meta, dict):
            meta = {}
        self.token = meta.get("progressToken")
        level: Any
        if self.modern and version is not None:
            self.abilities = abilities_of(version, meta.get(META_CLIENT_CAPABILITIES))
            level = meta.get(META_LOG_LEVEL)
        else:
            self.abilities = abilities_of(version or LATEST_LEGACY, host.capabilities)
            level = host.log_level
        self.level: str | None = level if level is not None and rank(level) is not None else None

    def __repr__(self) -> str:
        return f"<RequestCaller {self.host.frontend} {self.host.principal.agent_id}{', parked' if self.parked else ''}>"

    @property
    def era(self) -> Era:
        """See `Caller`."""
        return "modern" if self.modern else "legacy"

    @property
    def agent(self) -> tuple[str | None, str]:
        principal = self.host.principal
        return principal.tenant, principal.agent_id

    @property
    def session(self) -> Hashable | None:
        return self.host.original if self.host.session is not None else None

    def account(self, per: Per) -> GrantOwner:
        """See `Caller`."""
        return owner_of(self.host.principal, per)

    async def ask(self, server: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """See `Caller`. A handshake-era host gets the question while its call waits, another with the answer."""
        self.lacked = lacking(self.abilities, method, params) or self.lacked
        refuse_unable(self.abilities, method, params)
        await self.questions.question()
        answer = await self.ask_for_us(server, method, params)
        await self.questions.reply()
        return answer

    async def ask_for_us(self, server: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask the host as `ask` does, about what no server said: the answer goes to none.

        Raises:
            RpcError: as of `ask`.
        """
        refuse_unable(self.abilities, method, params)
        question = worded(server, method, params, modern=self.modern)
        if not self.modern:
            return await put(self.channel.ask if self.channel is not None else None, method, question)
        if self.parked is None:
            raise RpcError(METHOD_NOT_FOUND, "This host can only be asked by the result of its request.")
        return await self.parked(method, question)

    def on_log(self, server: str, params: Mapping[str, Any]) -> None:
        """See `Caller`. A host of 2026-07-28 gets only the levels that it requested."""
        channel, level = self.channel, rank(params.get("level"))
        wanted = rank(self.level or (None if self.modern else DEFAULT))
        if channel is None or level is None or wanted is None or level < wanted:
            log.debug("%s says: %.500s", server, brief(params.get("data")))
        else:
            pass_on = partial(self._pass_on, _signed(server, params))
            self.questions.say(pass_on)

    def _pass_on(self, said: dict[str, Any]) -> None:
        if self.channel is not None:
            self.channel.notify(_SAID, said)

    def on_elicitation_complete(self, server: str, elicitation: str, *, running: bool) -> None:
        """See `Caller`; 2026-07-28 has no such thing."""
        if self.modern:
            return
        notify = self.channel.notify if running and self.channel is not None else self.host.notify
        notify(_COMPLETED, {"elicitationId": page_id(server, elicitation)})

    def for_session(self) -> "SessionCaller | None":
        """See `Caller`."""
        return SessionCaller(self.host.original, self.abilities, self.questions.outside()) if not self.modern else None


class SessionCaller:
    """A `Caller` outside of any request: a host of the handshake eras, by its session.

    `questions` are of the call that its connection began with.
    """

    def __init__(self, host: Host, abilities: HostCapabilities, questions: Questions = NO_QUESTIONS) -> None:
        self.sent_in: str | None = None
        self.sent_as: int | None = None
        self.sent_over: str | None = None
        self.questions = questions
        self.host = host
        self.abilities = abilities

    @property
    def era(self) -> Era:
        return "legacy"

    @property
    def identity(self) -> Hashable:
        return self.host

    @property
    def agent(self) -> Hashable:
        principal = self.host.principal
        return principal.tenant, principal.agent_id

    @property
    def session(self) -> Hashable | None:
        return self.host

    @property
    def level(self) -> str | None:
        return self.host.log_level

    def account(self, per: Per) -> GrantOwner:
        """See `Caller`."""
        return owner_of(self.host.principal, per)

    async def ask(self, server: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """See `Caller`."""
        refuse_unable(self.abilities, method, params)
        connection = self.host.connection
        ask = connection.request if connection is not None else None
        await self.questions.question()
        answer = await put(ask, method, worded(server, method, params, modern=False))
        await self.questions.reply()
        return answer

    def on_log(self, server: str, params: Mapping[str, Any]) -> None:
        """See `Caller`."""
        level, wanted = rank(params.get("level")), rank(self.host.log_level or DEFAULT)
        if level is not None and wanted is not None and level >= wanted:
            pass_on = partial(self.host.notify, _SAID, _signed(server, params))
            self.questions.say(pass_on)

    def on_elicitation_complete(self, server: str, elicitation: str, *, running: bool) -> None:
        """See `Caller`."""
        self.host.notify(_COMPLETED, {"elicitationId": page_id(server, elicitation)})

    def for_session(self) -> "SessionCaller":
        """See `Caller`."""
        return self


def refuse_unable(abilities: HostCapabilities, method: str, params: Mapping[str, Any]) -> None:
    """Refuse a question that the host did not declare.

    Raises:
        RpcError: it did not declare the required capability.
    """
    missing = lacking(abilities, method, params)
    if missing is not None:
        said = "The host behind this call cannot be asked that."
        raise RpcError(METHOD_NOT_FOUND, said, {"requiredCapabilities": missing})


async def put(ask: AskHost | None, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The answer of a handshake-era host; a user who does not answer in time has dismissed the question.

    Raises:
        RpcError: there is no channel to it, or it answered with an error.
    """
    if ask is None:
        raise RpcError(INVALID_REQUEST, "There is no way to the host now.")
    try:
        async with asyncio.timeout(PATIENCE):
            return answered(await ask(method, params))
    except TimeoutError:
        if method == ELICIT:
            return {"action": "cancel"}
        raise RpcError(INVALID_REQUEST, f"The host did not answer within {PATIENCE:g} s.") from None
    except (NoBackChannel, PeerGone) as error:
        raise RpcError(INVALID_REQUEST, "The host cannot be asked (any more).") from error


def _signed(server: str, params: Mapping[str, Any]) -> dict[str, Any]:
    logger = params.get("logger")
    return {**received(dict(params)), "logger": f"{server}/{logger}" if isinstance(logger, str) and logger else server}
