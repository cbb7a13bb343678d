"""`aggregator approvals`: lists the calls that wait for an approver, and answers them."""

import json
import os
import sys
import time
from dataclasses import asdict
from typing import Any, Final, cast, get_args

from aggregator.audit.approval_event import answer_event
from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.record_change import noted, operator
from aggregator.cli.runtime.tables import minute, one_line, print_rows
from aggregator.cli.runtime.writer import say
from aggregator.domain.errors import OperatorError
from aggregator.domain.text.invisible import escaped
from aggregator.storage.approvals import NOTE_AT_MOST, ApprovalAnswer, give_answer, people_of
from aggregator.storage.database import open_database
from aggregator.storage.locate import default_url
from aggregator.storage.records import Approval, ApprovalStatus
from aggregator.storage.validity import Validity

_SUMMARY: Final = 60


def listed(storage: str | None, status: str | None = "pending", as_json: bool = False) -> int:
    """Print the approvals of one status, or all of them with None.

    Raises:
        OperatorError: there is no such status.
    """
    if status is not None and status not in get_args(ApprovalStatus):
        raise OperatorError(f"There is no status {status!r:.20}; there are {', '.join(get_args(ApprovalStatus))}, all.")
    found = run_loop(_list(_url(storage), cast("ApprovalStatus | None", status)))
    if as_json:
        say(json.dumps([_plain(approval) for approval in found], ensure_ascii=False, indent=2))
        return 0
    if not found:
        which = {None: "The database has no approval.", "pending": "No call waits for an approval."}
        say(which.get(status, f"No approval is {status}."), file=sys.stderr)
        return 0
    rows = [("ID", "STATUS", "AGENT", "TOOL", "ASKED", "EXPIRES", "ANSWERED BY", "WHAT")]
    rows += [
        (
            approval.id,
            approval.status,
            one_line(approval.agent_id),
            one_line(approval.tool),
            minute(approval.created),
            minute(approval.expires),
            one_line(approval.decided_by or "-"),
            one_line(approval.summary)[:_SUMMARY],
        )
        for approval in found
    ]
    print_rows(rows)
    return 0


def show(storage: str | None, id: str, as_json: bool = False) -> int:
    """Print every field of one approval.

    Raises:
        OperatorError: there is none such.
    """
    approval = run_loop(_get(_url(storage), id))
    if as_json:
        say(json.dumps(_plain(approval), ensure_ascii=False, indent=2))
        return 0
    people = ", ".join(map(one_line, people_of(approval)))
    agreed = (
        f" ({len(people_of(approval))} of {approval.needed}: {people or 'none so far'})" if approval.needed > 1 else ""
    )
    answered = f"{minute(approval.decided)} by {one_line(approval.decided_by or '')}" if approval.decided else "-"
    valid = (
        "this call only"
        if approval.valid_until is None
        else f"these exact arguments until {minute(approval.valid_until)}"
    )
    for name, value in (
        ("id", approval.id),
        ("status", approval.status + agreed),
        ("agent", one_line(approval.agent_id)),
        ("tool", one_line(approval.tool)),
        ("server", _known(approval.server)),
        ("version", _known(approval.schema_version)),
        ("because", _known(approval.rule) + (f" ({one_line(approval.rule_source)})" if approval.rule_source else "")),
        ("asked", minute(approval.created)),
        ("expires", minute(approval.expires)),
        ("answered", answered),
        ("valid", valid if approval.agreed is not None else "-"),
        ("note", escaped(approval.note) if approval.note else "-"),
        ("used", f"{minute(approval.used)}, {approval.uses} times" if approval.uses > 1 else minute(approval.used)),
        ("refused", f"{approval.asked_again} times since then" if approval.asked_again else "-"),
        ("trace", _known(approval.trace_id)),
        ("conversation", _known(approval.conversation_id)),
        ("arguments", f"sha256 {approval.digest}"),
    ):
        say(f"{name:<10} {value}")
    say()
    for line in approval.summary.splitlines():
        say(one_line(line))
    if approval.arguments is not None:
        say("\nAll arguments, without secrets:")
        for line in json.dumps(json.loads(approval.arguments), ensure_ascii=False, indent=2).splitlines():
            say(escaped(line))
    return 0


def approve(
    storage: str | None,
    id: str,
    by: str | None = None,
    *,
    note: str | None = None,
    validity: Validity = "once",
    audited: bool = True,
    chain_key: str | None = None,
) -> int:
    """Allow one call with these arguments, or all of them for a time.

    Raises:
        OperatorError: there is none, it is answered or expired, or this user has agreed already.
    """
    approval = _answer(storage, id, ApprovalAnswer("approve", by or operator(), note, validity), audited, chain_key)
    if approval.status == "pending":
        say(f"{len(people_of(approval))} of {approval.needed} people have agreed; it waits for the others.")
    elif approval.valid_until is not None:
        say(f"Every call with these arguments is let through until {minute(approval.valid_until)}.")
    return 0


def deny(
    storage: str | None,
    id: str,
    note: str | None = None,
    by: str | None = None,
    *,
    audited: bool = True,
    chain_key: str | None = None,
) -> int:
    """Refuse the call, or take back a yes that is not used up; the agent is shown `note`.

    Raises:
        OperatorError: there is none such, or it is used, denied or expired.
    """
    approval = _answer(storage, id, ApprovalAnswer("deny", by or operator(), note), audited, chain_key)
    say(f"The same call is refused until {minute(approval.expires)}.")
    return 0


def _answer(storage: str | None, id: str, answer: ApprovalAnswer, audited: bool, chain_key: str | None) -> Approval:
    """Enter an answer into the queue, and print the new state of the approval.

    Raises:
        OperatorError: the note is too long, or the queue refuses the answer.
    """
    if answer.note is not None and len(answer.note) > NOTE_AT_MOST:
        raise OperatorError(f"The note has {len(answer.note)} characters; at most {NOTE_AT_MOST} are kept and told.")
    approval = run_loop(_answered(_url(storage), id, answer, audited, chain_key))
    say(f"{approval.id} is {approval.status}: {one_line(approval.agent_id)}, {one_line(approval.tool)}.")
    return approval


async def _list(url: str, status: ApprovalStatus | None) -> list[Approval]:
    async with open_database(url) as database:
        return await database.approvals.list(status, now=time.time())


async def _get(url: str, id: str) -> Approval:
    async with open_database(url) as database:
        return await database.approvals.get(id, now=time.time())


async def _answered(
    url: str, id: str, answer: ApprovalAnswer, audited: bool = True, chain_key: str | None = None
) -> Approval:
    async with open_database(url, chain_key) as database:
        approval = await give_answer(database.approvals, id, answer, time.time())
        if audited:
            said, details = answer_event(approval, answer.by)
            await noted(database, "approval", said, approval.agent_id, **details)
        return approval


def _plain(approval: Approval) -> dict[str, Any]:
    """Return an approval as a JSON object."""
    arguments = json.loads(approval.arguments) if approval.arguments is not None else None
    return {**asdict(approval), "arguments": arguments, "agreed": list(people_of(approval))}


def _known(text: str | None) -> str:
    return one_line(text) if text else "-"


def _url(storage: str | None) -> str:
    return storage or default_url(os.environ)
