"""The last step of every read, get and completion.

Law: nothing of these reaches an upstream but through `forward`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from aggregator.domain.decision import ConfirmBy
from aggregator.domain.errors import UpstreamError
from aggregator.domain.records import ItemKind
from aggregator.gateway.ask.input_required import CallTarget, Send
from aggregator.gateway.ask.upstream_caller import RequestCaller
from aggregator.gateway.call_log import timed
from aggregator.gateway.calls.progress import Progress
from aggregator.gateway.eras import onward, received
from aggregator.gateway.request import Request
from aggregator.upstream.sessions.negotiate import version_of
from aggregator.upstream.upstream import Upstream

# What was asked of our host, and features that are agreed hop by hop.
_NOT_FORWARDED: Final = frozenset({"task", "inputResponses", "requestState"})


@dataclass(frozen=True, slots=True)
class ResolvedItem:
    """Something of one upstream that a host named: `own` is what the upstream calls it, `asked` what the host wrote.

    `takes` are the names of the arguments that a prompt declares, None where nothing is known of them. `listed` and
    `also` are what a rulebook has to know of a resource (`AgentRules.decide_resource`).
    """

    kind: ItemKind
    link: Upstream
    own: str
    asked: str
    takes: tuple[str, ...] | None = None
    listed: bool = False
    also: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As people read it."""
        return f"{self.link.config.id} {self.own:.200}"


async def forward(
    found: ResolvedItem, method: str, params: Mapping[str, Any], question: Request, *, confirm: ConfirmBy | None = None
) -> dict[str, Any]:
    """The upstream's result, without what was meant for its own hop; `params` name the thing as the upstream does.

    It may be a question to the host (`asks`). `confirm`: who had to agree before, if anybody had.

    Raises:
        HostError: the host came back with an answer that is not good for this.
        UpstreamRpcError: the upstream's own error.
        UpstreamError: it is away, too slow, gone in the middle, or answered nonsense.
        NotRecorded: it is not on record that it is sent, and has to be.
    """
    assert question.trail is not None, "whatever gets here is on record"
    link, inquiries, (journal, record) = found.link, question.inquiries, question.trail
    behind = RequestCaller(question.host, question.version, params, question.channel)
    sent = {key: value for key, value in params.items() if key not in _NOT_FORWARDED}
    meta = onward(sent.get("_meta"), trusted=link.config.trusted)
    meta |= journal.carried(record, meta)
    if meta or "_meta" in sent:
        sent["_meta"] = meta
    matter = CallTarget(link, method, found.own, question.host.principal, question.arguments())
    heard = Progress(behind) if behind.token is not None else None

    async def send(more: dict[str, Any]) -> dict[str, Any]:
        asked = {**sent, **more} if more else sent
        try:
            return received(await link.call(method, asked, link.config.timeout, heard, None, behind))
        except UpstreamError as error:
            # None of these methods is for changing anything.
            error.settle(harmless=True)
            raise

    async def timed_send(more: dict[str, Any]) -> dict[str, Any]:
        with timed(record, "upstream"):
            return await send(more)

    async def work(send: Send) -> dict[str, Any]:
        more = back.more if back is not None else inquiries.unasked(matter, behind, params)
        try:
            result = await inquiries.carry(matter, behind, send, more, agreed=record.approved_by)
        except BaseException:
            if heard is not None:
                heard.drop()
            raise
        if heard is not None:
            heard.flush()
        return result

    back = await inquiries.back(matter, behind, params, confirm=confirm)
    if back is not None:
        record.approved_by = back.agreed
    await journal.sends(record)
    try:
        if back is not None and back.parked is not None:
            with timed(record, "upstream"):
                return await inquiries.resume(matter, behind, back)
        if inquiries.parks(matter, behind):
            # What goes on when this request is answered must not write into its record.
            apart, unclaimed = partial(work, send), partial(journal.unclaimed, record)
            with timed(record, "upstream"):
                return await inquiries.park(matter, behind, apart, unclaimed, agreed=record.approved_by)
        return await work(timed_send)
    finally:
        record.upstream_version = behind.sent_in or version_of(link.greeting)


def asks(result: Mapping[str, Any]) -> bool:
    """Whether a result is a question to the host, which is passed on as it is."""
    return bool(result.get("resultType", "complete") != "complete")
