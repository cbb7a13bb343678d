"""A host of another replica, as the connection of a server that runs here deals with it."""

import asyncio
import secrets
from collections.abc import Hashable, Mapping
from typing import Any, Protocol

from aggregator.domain.abilities import HostCapabilities
from aggregator.domain.errors import INVALID_REQUEST, RpcError
from aggregator.domain.grant_owner import SHARED, GrantOwner, Per
from aggregator.domain.versions import Era
from aggregator.upstream.places.messages import CallerFacts, rpc_error_from_wire


class PutMessage(Protocol):
    """A function that sends a message to the replica of the host."""

    def __call__(self, message: Mapping[str, Any], /) -> None: ...


class OpenQuestions:
    """The questions to hosts of other replicas that wait for an answer, by their ids."""

    def __init__(self) -> None:
        self._open: dict[str, asyncio.Future[Mapping[str, Any]]] = {}

    def __repr__(self) -> str:
        return f"<OpenQuestions: {len(self._open)}>"

    async def put(self, put_message: PutMessage, message: Mapping[str, Any]) -> dict[str, Any]:
        """Send a question and return the answer.

        Raises:
            RpcError: the host answered with an error.
        """
        number = secrets.token_hex(12)
        answer = self._open[number] = asyncio.get_running_loop().create_future()
        try:
            put_message({"question": number, **message})
            said = await answer
        finally:
            del self._open[number]
        if "error" in said:
            raise rpc_error_from_wire(said["error"])
        return dict(said["result"])

    def answer(self, said: Mapping[str, Any]) -> bool:
        """Take an answer; return False where no question waits for it."""
        waiting = self._open.get(str(said.get("question")))
        if waiting is None or waiting.done():
            return False
        waiting.set_result(said)
        return True


class RemoteCaller:
    """A `Caller`: one call of a host of the replica `origin`, or with `outside` its session.

    put_message: sends to the stream of the call; `attached`, to the stream of the replica.
    """

    def __init__(
        self,
        origin: str,
        facts: CallerFacts,
        questions: OpenQuestions,
        put_message: PutMessage,
        attached: PutMessage,
        *,
        outside: bool,
    ) -> None:
        self.sent_in: str | None = None
        self.abilities: HostCapabilities = facts.abilities
        self.era: Era = facts.era
        self.level = facts.level
        self.agent: Hashable = facts.agent
        self.session: Hashable | None = (origin, facts.session) if facts.session is not None else None
        self.identity: Hashable = (origin, facts.identity)
        self.host: Hashable = self.session or self.identity
        self._origin = origin
        self._facts = facts
        self._questions = questions
        self._put = put_message
        self._attached = attached
        self._outside = outside

    def __repr__(self) -> str:
        return f"<RemoteCaller of {self._origin}{', outside of a call' if self._outside else ''}>"

    def account(self, per: Per) -> GrantOwner:
        """See `Caller`."""
        if per == "shared":
            return SHARED
        return GrantOwner.from_key(self._facts.person if per == "user" else self._facts.of_agent)

    async def ask(self, server: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """See `Caller`."""
        if self._outside and not self._facts.outside:
            raise RpcError(INVALID_REQUEST, "There is no way to the host now.")
        return await self._questions.put(self._put, self._addressed({"method": method, "params": params}))

    def on_log(self, server: str, params: Mapping[str, Any]) -> None:
        """See `Caller`."""
        self._put(self._addressed({"log": params}))

    def on_elicitation_complete(self, server: str, elicitation: str, *, running: bool) -> None:
        """See `Caller`; the other replica remembers which host it sent there."""
        self._attached({"completed": elicitation})

    def for_session(self) -> "RemoteCaller | None":
        """See `Caller`."""
        if not self._facts.outside:
            return None
        return RemoteCaller(self._origin, self._facts, self._questions, self._attached, self._attached, outside=True)

    def _addressed(self, message: Mapping[str, Any]) -> dict[str, Any]:
        return {**message, "session": self._facts.session} if self._outside else dict(message)
