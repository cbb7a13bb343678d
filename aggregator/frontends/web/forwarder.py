"""The sending of a host's request to the replica that has to answer it.

Rule 1: a request is forwarded once at most: what came by a hop is answered where it came to.
Rule 2: the end of the owner ends the wait for it, and so does the end of this replica.
Rule 3: an answer of a host is brought to its owner, or refused so that the host can send it again; it is dropped only
once the owner is gone.
Rule 4: no credential of a host goes from one replica to another.
"""

import asyncio
import itertools
import logging
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import AnswerLost, OwnerNotReached
from aggregator.domain.principal import Principal
from aggregator.frontends.web.address_wishes import query_of
from aggregator.frontends.web.host_guard import Receive, Scope, Send, respond
from aggregator.frontends.web.sessions.http_session import HttpSession
from aggregator.gateway.drain import Drain
from aggregator.replicas.group.hop_client import HopFailed, HopResponse
from aggregator.replicas.group.membership import Membership
from aggregator.replicas.group.replication import Replication
from aggregator.storage.records import ReplicaRecord
from aggregator.wire.codec import encode
from aggregator.wire.headers import LAST_EVENT
from aggregator.wire.message import sane_id
from aggregator.wire.responses import error_message
from aggregator.wire.sse import format_event

log = logging.getLogger(__name__)

# Ids are whole numbers that any host reads and writes without loss: a prefix of the process, and a count.
_PREFIXES: Final = 9_000_000
_COUNTED: Final = 10**8
_FACT: Final = "asks"
# In the scope of a request that came by a hop.
FORWARDED: Final = "aggregator.forwarded"
# The paths of the other end.
HTTP, MESSAGES, ANSWERS, ENDED = "http", "messages", "answers", "ended"
AGENT, KEY, TOKEN = "agent", "key", "token"
# Seconds that an answer to a question may take to its owner, and that the owner of a request is looked for.
_PATIENCE: Final = 10.0
# Seconds for which a request that did not reach its owner is sent again.
_SENDING_AGAIN: Final = 2.0
# Seconds between two attempts: at first, and at most.
_AGAIN: Final = 0.1
_AGAIN_AT_MOST: Final = 1.0
# The id of a replica.
_REPLICA: Final = re.compile(r"[0-9a-f]{16}")
# Seconds that the end of a session waits for the other replicas; one that takes longer hears of it by the changes.
_SPREADING: Final = 1.0
# Header fields of a host that a request is forwarded with; those of a credential are not.
_PASSED: Final = frozenset(
    {
        "accept",
        "content-type",
        LAST_EVENT,
        "traceparent",
        "tracestate",
        "baggage",
        "x-user-id",
        "x-session-id",
        "x-conversation-id",
    }
)
_PASSED_PREFIX: Final = "mcp-"
# Statuses from here on say that the other replica could not do it now.
_OWN_FAULT: Final = 500
_ANSWERED: Final = frozenset({"content-type", "cache-control", "x-accel-buffering", "retry-after"})


class QuestionIds:
    """The ids of this process. No other one asks with the same, so that an answer is never taken for another's."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._prefix = 1 + secrets.randbelow(_PREFIXES)
        self.numbers: Iterator[int] = itertools.count(self._prefix * _COUNTED + 1)
        membership.say(self._facts)

    def __repr__(self) -> str:
        return f"<QuestionIds from {self._prefix * _COUNTED}>"

    def asker(self, request_id: object) -> int | None:
        """Return the prefix of the other process that asked with this id; None if no other can have."""
        if isinstance(request_id, str) and request_id.isascii() and request_id.isdecimal() and len(request_id) < 16:
            request_id = int(request_id)
        if not isinstance(request_id, int):
            return None
        prefix = request_id // _COUNTED
        return prefix if 1 <= prefix <= _PREFIXES and prefix != self._prefix else None

    async def owner(self, asker: int) -> ReplicaRecord | None:
        """Return the replica that has this prefix; None if it is gone. Waits while the database cannot say."""
        return await self._membership.find(lambda one: one.facts.get(_FACT) == asker)

    def _facts(self) -> Mapping[str, Any]:
        return {_FACT: self._prefix}


class Forwarder:
    """The requests that this replica forwards. `questions` are the ids by which answers find their way."""

    def __init__(self, group: Replication, drain: Drain) -> None:
        self._group = group
        self._drain = drain
        self.questions = QuestionIds(group.membership)
        self._changed = asyncio.Event()
        group.membership.on_changed(self._replicas_changed)

    def __repr__(self) -> str:
        return f"<Forwarder of {self._group.membership.id}>"

    async def has(self, owner: str, scope: Scope) -> bool:
        """Return whether a request may go to this replica: it is another one, is there, and has not sent it here.

        Raises:
            OwnerNotReached: the database cannot say now whether it is there.
        """
        group = self._group
        if not group.enabled or owner == group.membership.id or FORWARDED in scope or not _REPLICA.fullmatch(owner):
            return False
        try:
            async with asyncio.timeout(_PATIENCE):
                return await group.membership.find(lambda one: one.id == owner) is not None
        except TimeoutError:
            raise OwnerNotReached("the database cannot say now whether that one is there") from None

    async def pass_on(
        self,
        owner: str,
        path: str,
        body: bytes,
        principal: Principal,
        scope: Scope,
        receive: Receive,
        send: Send,
        lost: bytes = b"",
    ) -> None:
        """Send a request to its owner, and the answer back as it comes; a host that leaves ends both.

        `lost`: the message that ends an event stream which the owner left in the middle.

        What certainly did not reach an owner that is there is sent again for a moment.

        Raises:
            HopFailed: the owner is gone, or cannot be reached; nothing of an answer was sent.
        """
        loop, pause = asyncio.get_running_loop(), _AGAIN
        until = loop.time() + _SENDING_AGAIN
        while True:
            try:
                await self._pass_once(owner, path, body, principal, scope, receive, send, lost)
                return
            except HopFailed as failed:
                there = self._group.membership.get(owner) is not None
                if failed.sent or not there or loop.time() + pause > until:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, _AGAIN_AT_MOST)

    async def _pass_once(
        self,
        owner: str,
        path: str,
        body: bytes,
        principal: Principal,
        scope: Scope,
        receive: Receive,
        send: Send,
        lost: bytes,
    ) -> None:
        passing = _Passing(send, lost)
        failed: HopFailed | None
        try:
            with self._drain.work(partial(HopFailed, "this replica was shut down", sent=True)):
                async with Tasks("a forwarded request") as tasks:
                    answering = tasks.start(self._answered(owner, path, body, principal, scope, passing))
                    ends = {answering, tasks.start(_left(receive)), tasks.start(self._gone(owner))}
                    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                    failed = answering.result() if answering.done() and not answering.cancelled() else None
        except HopFailed as ended:
            failed = ended
        if failed is not None:
            await passing.fail(failed)
        elif (not answering.done() or answering.cancelled()) and self._group.membership.get(owner) is None:
            await passing.fail(HopFailed(f"the replica {owner} is gone", sent=True))

    async def resume(
        self,
        owner: str,
        message: dict[str, Any],
        principal: Principal,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> bool:
        """Send a request of 2026-07-28 to the replica `owner`, and its answer to the host; return False if that replica
        cannot be reached: this replica answers.
        """
        request_id = sane_id(message.get("id"))
        lost = AnswerLost("The replica that runs this call ended, or the one on the way to it")
        body, last = encode(message), encode(error_message(request_id, lost))
        try:
            await self.pass_on(owner, f"/{HTTP}{query_of(scope)}", body, principal, scope, receive, send, last)
        except HopFailed as failed:
            if not failed.sent:
                return False
            await respond(send, 200, error_message(request_id, lost))
        return True

    async def bring_answer(self, session: HttpSession, message: dict[str, Any]) -> None:
        """Bring a host's answer to the replica that asked it, if that is another one. One that is gone has no use for
        it: the call that asked has ended with it.

        An owner takes an answer once, however often it is brought.

        Raises:
            OwnerNotReached: it could not be brought, and the question may still be open.
        """
        request_id = message.get("id")
        asker = self.questions.asker(request_id) if self._group.enabled else None
        if asker is None or session.peer.waits_for(request_id):
            return
        claims = {**_claims(session.host.principal), "session": session.id}
        pause, why = _AGAIN, "the database cannot say now which one asked"
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while (owner := await self.questions.owner(asker)) is not None:
                    why = "it does not answer"
                    try:
                        status = await self._bring(owner.id, message, claims)
                    except HopFailed as failed:
                        if not failed.sent and self._group.membership.get(owner.id) is None:
                            # Not heard of for a lease, and nothing listens there.
                            break
                        why = str(failed)
                    else:
                        if status < _OWN_FAULT:
                            return
                        why = f"it answered HTTP {status}"
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, _AGAIN_AT_MOST)
                log.info("an answer to a question came after the replica that asked was gone")
                return
        log.warning("an answer to a question could not be brought to the replica that asked: %s", why)
        raise OwnerNotReached(why)

    async def _bring(self, owner: str, message: dict[str, Any], claims: Mapping[str, Any]) -> int:
        """Return the status with which the owner took an answer; below 500, it will not take it otherwise.

        Raises:
            HopFailed: it did not.
        """
        async with self._group.hop_client.request(owner, f"/{ANSWERS}", encode(message), claims) as answer:
            await answer.read()
            return answer.status

    async def spread_end(self, session: HttpSession) -> None:
        """Make every other replica drop a session, before the host gets the answer that it has ended."""
        group = self._group
        others = [one.id for one in group.membership.others() if one.address is not None] if group.enabled else []
        if others:
            async with Tasks("the end of a session") as tasks:
                told = [tasks.start(self._end_at(other, session)) for other in others]
                await asyncio.wait(told, timeout=_SPREADING)

    async def _end_at(self, other: str, session: HttpSession) -> None:
        claims = _claims(session.host.principal)
        try:
            async with self._group.hop_client.request(other, f"/{ENDED}", session.id.encode(), claims) as answer:
                await answer.read()
        except HopFailed as error:
            log.info("the end of a session was not heard by another replica at once: %s", error)

    async def _answered(
        self, owner: str, path: str, body: bytes, principal: Principal, scope: Scope, passing: "_Passing"
    ) -> HopFailed | None:
        """Send a request to its owner, and its answer to the host; return why that failed, since an exception would be
        logged as a fault of the task.
        """
        try:
            async with self._group.hop_client.request(
                owner, path, body, _claims(principal), _headers(scope), method=scope["method"]
            ) as answer:
                await passing.begin(answer)
                async for part in answer.parts():
                    await passing.send_part(part)
        except HopFailed as failed:
            return failed
        await passing.finish()
        return None

    async def _gone(self, owner: str) -> None:
        """Wait until a replica is gone, also one that says nothing any more.

        One that is silent already may only be cut off from the database: it is given the time of a lease.
        """
        membership = self._group.membership
        with suppress(TimeoutError):
            async with asyncio.timeout(membership.lease):
                while membership.get(owner) is None:
                    await self._changed.wait()
        while membership.get(owner) is not None:
            await self._changed.wait()

    def _replicas_changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class _Passing:
    """The answer of an owner on its way to the host."""

    def __init__(self, send: Send, lost: bytes) -> None:
        self._send = send
        self._lost = lost
        self._begun = self._ended = self._streams = False

    async def begin(self, answer: HopResponse) -> None:
        kept = {name.lower(): value for name, value in answer.headers.items() if name.lower() in _ANSWERED}
        headers = [(name.encode(), value.encode("latin-1")) for name, value in kept.items()]
        self._begun, self._streams = True, kept.get("content-type", "").startswith("text/event-stream")
        await self._send({"type": "http.response.start", "status": answer.status, "headers": headers})

    async def send_part(self, part: bytes) -> None:
        await self._send({"type": "http.response.body", "body": part, "more_body": True})

    async def finish(self) -> None:
        if self._begun and not self._ended:
            self._ended = True
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def fail(self, failed: HopFailed) -> None:
        """End an answer that stopped in the middle, so that the host does not take the beginning for the whole.

        Raises:
            HopFailed: nothing of an answer was sent.
        """
        if not self._begun:
            raise failed
        log.warning("%s", failed)
        if self._streams and self._lost and not self._ended:
            # After a blank line: the owner may have stopped within an event.
            await self.send_part(b"\n\n" + format_event(self._lost, "message"))
        await self.finish()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _claims(principal: Principal) -> dict[str, Any]:
    claims: dict[str, Any] = {AGENT: principal.agent_id, KEY: principal.key_id}
    return claims if principal.token is None else {**claims, TOKEN: principal.token.to_json()}


def _headers(scope: Scope) -> Mapping[str, str]:
    """Return the header fields to pass on; those of one name as one."""
    found: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1")
        if name in _PASSED or name.startswith(_PASSED_PREFIX):
            text = value.decode("latin-1")
            found[name] = f"{found[name]}, {text}" if name in found else text
    return found
