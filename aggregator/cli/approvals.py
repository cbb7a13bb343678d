"""`aggregator approvals`: lists the calls that wait for an approver, and answers them."""

import json
import os
import time
from dataclasses import asdict
from typing import Any, Final, Literal, cast, get_args

from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.record_change import noted, operator
from aggregator.cli.runtime.tables import minute, one_line, print_rows
from aggregator.domain.errors import OperatorError
from aggregator.domain.text.invisible import escaped
from aggregator.storage.database import open_database
from aggregator.storage.locate import default_url
from aggregator.storage.records import Approval, ApprovalStatus

_SUMMARY: Final = 60
Answer = Literal["grant", "deny"]


def listed(storage: str | None, status: str | None = "pending", as_json: bool = False) -> int:
    """Print the approvals of one status, or all of them with None.

    Raises:
        OperatorError: there is no such status.
    """
    if status is not None and status not in get_args(ApprovalStatus):
        raise OperatorError(f"There is no status {status!r:.20}; there are {', '.join(get_args(ApprovalStatus))}, all.")
    found = run_loop(_list(_url(storage), cast("ApprovalStatus | None", status)))
    if as_json:
        print(json.dumps([_plain(approval) for approval in found], ensure_ascii=False, indent=2))
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
        print(json.dumps(_plain(approval), ensure_ascii=False, indent=2))
        return 0
    answered = f"{minute(approval.decided)} by {one_line(approval.decided_by or '')}" if approval.decided else "-"
    for name, value in (
        ("id", approval.id),
        ("status", approval.status),
        ("agent", one_line(approval.agent_id)),
        ("tool", one_line(approval.tool)),
        ("asked", minute(approval.created)),
        ("expires", minute(approval.expires)),
        ("answered", answered),
        ("note", escaped(approval.note) if approval.note else "-"),
        ("used", minute(approval.used)),
        ("arguments", f"sha256 {approval.digest}"),
    ):
        print(f"{name:<10} {value}")
    print()
    for line in approval.summary.splitlines():
        print(one_line(line))
    if approval.arguments is not None:
        print("\nAll arguments, without secrets:")
        for line in json.dumps(json.loads(approval.arguments), ensure_ascii=False, indent=2).splitlines():
            print(escaped(line))
    return 0


def grant(
    storage: str | None, id: str, by: str | None = None, *, audited: bool = True, chain_key: str | None = None
) -> int:
    """Allow one call with these arguments.

    Raises:
        OperatorError: there is none such, or it is answered or expired.
    """
    return _answer(storage, id, by, "grant", audited, chain_key)


def deny(
    storage: str | None,
    id: str,
    note: str | None = None,
    by: str | None = None,
    *,
    audited: bool = True,
    chain_key: str | None = None,
) -> int:
    """Refuse the call, or revoke a grant that was not used yet; the agent is shown `note`.

    Raises:
        OperatorError: there is none such, or it is used, denied or expired.
    """
    return _answer(storage, id, by, "deny", audited, chain_key, note)


def _answer(
    storage: str | None,
    id: str,
    by: str | None,
    answer: Answer,
    audited: bool,
    chain_key: str | None,
    note: str | None = None,
) -> int:
    approval = run_loop(_answered(_url(storage), id, by or operator(), answer, audited, note, chain_key))
    print(f"{approval.id} is {approval.status}: {one_line(approval.agent_id)}, {one_line(approval.tool)}.")
    if answer == "deny":
        print(f"The same call is refused until {minute(approval.expires)}.")
    return 0


async def _list(url: str, status: ApprovalStatus | None) -> list[Approval]:
    async with open_database(url) as database:
        return await database.approvals.list(status, now=time.time())


async def _get(url: str, id: str) -> Approval:
    async with open_database(url) as database:
        return await database.approvals.get(id, now=time.time())


async def _answered(
    url: str,
    id: str,
    by: str,
    answer: Answer,
    audited: bool = True,
    note: str | None = None,
    chain_key: str | None = None,
) -> Approval:
    async with open_database(url, chain_key) as database:
        queue, now = database.approvals, time.time()
        approval = await (queue.grant(id, by, now=now) if answer == "grant" else queue.deny(id, by, note=note, now=now))
        if audited:
            said = f"The call of {approval.tool} by {approval.agent_id} is {approval.status}."
            known = {"approval": id, "tool": approval.tool, "answer": approval.status}
            # The row of the call has the digest of its arguments, too.
            await noted(database, "approval", said, approval.agent_id, by=by, arguments_digest=approval.digest, **known)
        return approval


def _plain(approval: Approval) -> dict[str, Any]:
    """Return an approval as a JSON object."""
    arguments = json.loads(approval.arguments) if approval.arguments is not None else None
    return {**asdict(approval), "arguments": arguments}


def _url(storage: str | None) -> str:
    return storage or default_url(os.environ)
