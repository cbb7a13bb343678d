"""Rows of the audit as months of use leave them, written by the product's own writer, with times of the past."""

import asyncio
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from aggregator.audit.capture import Capture
from aggregator.audit.rows import RowMaker
from aggregator.domain.call_record import (
    TOOL_CALL,
    AuditEvent,
    CalledItem,
    CallRecord,
    RecordedCaller,
    RecordedDecision,
    RecordedOutcome,
    RecordedSending,
    Stage,
    Status,
    TraceContext,
)
from aggregator.storage.audit.chain import ChainBatch
from aggregator.storage.database import open_database

_BATCH: Final = 5_000
_TOOLS_OF_AN_AGENT: Final = 40
# Of a thousand calls; the rest is well.
_OUTCOMES: Final[Sequence[tuple[int, Status, str | None, str | None, str | None]]] = (
    (20, "denied", "tool_not_allowed", "{tool} is denied by the policy: deny \"*.delete_*\".", "deny \"*.delete_*\""),
    (12, "error", "tool_error", "The tool {tool} says that it failed: the record is locked.", None),
    (8, "invalid", "invalid_arguments", "{tool} was not called: /limit at most 50, got 500.", None),
    (4, "timeout", "upstream_timeout", "{server} did not answer within its limit of 30 s.", None),
    (3, "unavailable", "upstream_unavailable", "{server} cannot be reached: nothing listens there.", None),
    (2, "pending", "approval_pending", "{tool} was not called yet: a person has to agree.", None),
    (1, "cancelled", None, None, None),
)  # fmt: skip


def write(url: str, records: Iterable[CallRecord | AuditEvent], capture: Capture | None = None) -> None:
    """Append rows to the audit of a database, by default without arguments and results."""
    asyncio.run(_write(url, iter(records), capture or Capture("none", lambda value: value, 2**16)))


async def _write(url: str, records: Iterator[CallRecord | AuditEvent], capture: Capture) -> None:
    maker = RowMaker(capture)
    async with open_database(url) as database:
        while batch := [maker.row(one) for one in islice(records, _BATCH)]:
            await database.audit.append(ChainBatch(batch))


def past_calls(
    rows: int, agents: Sequence[str], tools: Sequence[tuple[str, str]], until: float, span: float
) -> Iterator[CallRecord]:
    """Make the records of `rows` calls in the `span` seconds before `until`; `tools` are pairs of server and full name.

    Some agents and some tools have most of the calls. They are the same each time.
    """
    chance = random.Random(7)  # noqa: S311 - the same calls each time
    own = {agent: chance.choices(tools, k=_TOOLS_OF_AN_AGENT) for agent in agents}
    busy = [1 / (place + 5) for place in range(len(agents))]
    callers: list[str] = []
    for number in range(rows):
        if not callers:
            callers = chance.choices(agents, busy, k=1_000)
        agent = callers.pop()
        server, tool = own[agent][int(_TOOLS_OF_AN_AGENT * chance.random() ** 2)]
        yield _past_call(chance, agent, server, tool, until - span * (1 - number / rows))


def _past_call(chance: random.Random, agent: str, server: str, tool: str, at: float) -> CallRecord:
    seconds = min(30.0, 0.002 * 1.7 ** chance.gauss(2, 3))
    call = CallRecord(
        TraceContext(f"{chance.getrandbits(128):032x}", f"{chance.getrandbits(64):016x}"),
        at, RecordedCaller(agent, "http", "2026-07-28", None, "k" + agent[-3:], None, None, f"c-{int(at) // 600}"),
        tool, called=CalledItem(TOOL_CALL, server, tool, tool.partition(".")[2], "3793967c0a52"),
        sending=RecordedSending(sent=True, upstream_version="2025-11-25"), duration=seconds,
        arguments={"id": f"r-{int(at)}", "limit": 20}, result={"content": [{"type": "text", "text": "x" * 200}]},
    )  # fmt: skip
    left = int(1_000 * chance.random())
    for weight, status, code, message, rule in _OUTCOMES:
        left -= weight
        if left < 0:
            said = message.format(tool=tool, server=server) if message else None
            call.outcome, call.result = RecordedOutcome(status, code, said), None
            call.decision = RecordedDecision(rule, "policies/roles.yaml:7" if rule else None)
            if status in ("denied", "invalid", "pending"):
                call.duration = 0.0004
                return call
            break
    call.steps = [Stage("policy", 0.0, 2e-5), Stage("upstream", 3e-4, max(0.0, call.duration - 5e-4))]
    return call
