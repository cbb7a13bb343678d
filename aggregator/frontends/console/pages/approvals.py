"""The calls that wait for confirmation, each with all its facts, and the answer to it."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from aggregator.audit.approval_event import answer_event
from aggregator.frontends.console.approval_data import ApprovalData, listed, since_midnight
from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.view import (
    BadInput,
    ChangedMeanwhile,
    ConsoleRequest,
    NotThere,
    PageRoute,
    PageView,
    Redirect,
)
from aggregator.storage.approvals import KEPT, NOTE_AT_MOST, ApprovalAnswer, give_answer
from aggregator.storage.errors import AlreadyAgreed, NoSuchRow
from aggregator.storage.records import Approval, ApprovalStatus
from aggregator.storage.validity import Validity

# Entries of each part of the list.
_WAITING: Final = 200
_ANSWERED: Final = 60
_VALIDITIES: Final[tuple[Validity, ...]] = get_args(Validity)
_STATUSES: Final[tuple[ApprovalStatus, ...]] = get_args(ApprovalStatus)
_LISTS: Final = {"waiting_calls": {"type": "array"}, "answered": {"type": "array"}, "earlier": {"type": "boolean"}}
_LIST: Final = {"type": "object", "properties": _LISTS, "required": ["waiting_calls", "answered"]}
_ONE: Final = {
    "type": "object",
    "properties": {**_LISTS, "question": {"type": "object"}},
    "required": ["waiting_calls", "answered", "question"],
}
_ANSWER_FIELDS: Final = {
    "answer": "`approve` or `deny`.",
    "digest": "The digest of the arguments that were looked at, as the question has it.",
    "status": "The status that the question had then; `pending` if it is left out.",
    "validity": "Of a yes: `once` (if it is left out), or `1h`, `today` or `7d` for these exact arguments.",
    "note": f"At most {NOTE_AT_MOST} characters: kept with the answer, and told to the agent with a no.",
}


class ApprovalsPage:
    """The queue of approvals: the list, one question, and the answer to it."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts
        self._data = ApprovalData(parts)

    def routes(self) -> Sequence[PageRoute]:
        """Return the ways to it."""
        earlier = {"all": "Anything but nothing: all answers of the last 30 days, not those of today."}
        return [
            PageRoute("GET", "/approvals", "approver", self.list, "What waits for a person", _LIST, earlier),
            PageRoute("GET", "/approvals/{id}", "approver", self.show, "One call that waits for a person", _ONE),
            PageRoute("POST", "/approvals/{id}", "approver", self.answer, "Answer it", _ONE, _ANSWER_FIELDS),
        ]

    async def list(self, request: ConsoleRequest) -> PageView:
        """Return the list."""
        data = await self._listed(bool(request.query.get("all")), time.time())
        return PageView("approvals.html", "Approvals", data, fragment="_approvals.html")

    async def show(self, request: ConsoleRequest) -> PageView:
        """Return one question, beside the list.

        Raises:
            NotThere: there is none such.
        """
        return await self._one(request.path["id"], whole=request.as_json)

    async def answer(self, request: ConsoleRequest) -> PageView | Redirect:
        """Answer a request for approval, like `aggregator approvals`.

        Raises:
            BadInput: a field is invalid, or this user cannot answer this request.
            ChangedMeanwhile: the request has changed since the user saw it.
            NotThere: there is none.
        """
        id, now = request.path["id"], time.time()
        answer = _answer_in(request.form, request.person.name)
        approval = await self._find(id, now)
        self._check_person(request, approval)
        seen = request.form.get("status", "pending")
        if request.form.get("digest") != approval.digest:
            raise ChangedMeanwhile(
                "These are not the arguments that were shown. Nothing was done: load the page again."
            )
        if seen != approval.status:
            raise ChangedMeanwhile(f"{_by_now(approval)} Nothing was done: load the page again.")
        database = await self._parts.opened()
        try:
            answered = await give_answer(database.approvals, id, answer, now, seen=_status(seen))
        except AlreadyAgreed as error:
            raise BadInput("answer", str(error)) from error
        except NoSuchRow:
            raise ChangedMeanwhile(f"{_by_now(await self._find(id, now))} Nothing was done.") from None
        said, details = answer_event(answered, request.person.name)
        self._parts.record("approval", said, agent=answered.agent_id, server=answered.server, details=details)
        return await self._one(id, whole=True) if request.as_json else Redirect(f"/approvals/{id}")

    async def _one(self, id: str, *, whole: bool) -> PageView:
        """Return one request; `whole` adds its complete arguments, which a page shows in part."""
        now = time.time()
        approval = await self._find(id, now)
        question = await self._data.question(approval, now)
        if whole and approval.arguments is not None:
            question["all_arguments"] = await asyncio.to_thread(json.loads, approval.arguments)
        data = {**await self._listed(False, now), "question": question}
        return PageView("approval.html", f"{approval.agent_id[:40]}: {approval.tool[:80]}", data)

    async def _listed(self, earlier: bool, now: float) -> dict[str, Any]:
        """Return the waiting requests, oldest first, and those answered today or expired, newest first."""
        queue = (await self._parts.opened()).approvals
        since = now - KEPT if earlier else since_midnight(now)
        waits = self._parts.answers.waits()
        pending = await queue.list("pending", most=_WAITING, now=now)
        recent = await queue.list(since=since, most=_ANSWERED + _WAITING, now=now)
        answered = sorted((one for one in recent if one.status != "pending"), key=_last, reverse=True)
        return {
            "waiting_calls": [
                {**listed(one, waits, now), "held": self._parts.browser.held(one.tool) is not None} for one in pending
            ],
            "answered": [listed(one, waits, now) for one in answered[:_ANSWERED]],
            "earlier": earlier,
        }

    async def _find(self, id: str, now: float) -> Approval:
        try:
            return await (await self._parts.opened()).approvals.get(id[:64], now=now)
        except NoSuchRow:
            raise NotThere(f"There is no approval {id[:64]!r}; they are kept for 30 days.") from None

    def _check_person(self, request: ConsoleRequest, approval: Approval) -> None:
        """Refuse the key of the very agent that asks: the program that makes its calls has that, too."""
        key = request.person.key_id
        record = self._parts.access.keyring.record(key) if key is not None else None
        if record is not None and record.agent_id == approval.agent_id:
            raise BadInput("answer", "This key is that of the agent that asks, which cannot answer its own question.")


def _answer_in(form: Mapping[str, str], person: str) -> ApprovalAnswer:
    """Return the answer that a form holds.

    Raises:
        BadInput: it holds none, or one that cannot be used.
    """
    note = form.get("note", "").strip() or None
    if note is not None and len(note) > NOTE_AT_MOST:
        raise BadInput("note", f"The note has {len(note)} characters; at most {NOTE_AT_MOST} are kept and told.")
    match form.get("answer"):
        case "deny":
            return ApprovalAnswer("deny", person, note)
        case "approve":
            return ApprovalAnswer("approve", person, note, _validity(form))
    raise BadInput("answer", "Send `approve` or `deny`.")


def _validity(form: Mapping[str, str]) -> Validity:
    """Return the validity of an approval. A page sends the choice as `for`, and the time beside it as `time`."""
    chosen = form.get("validity") or (form.get("time", "") if form.get("for") == "until" else form.get("for") or "once")
    for known in _VALIDITIES:
        if chosen == known:
            return known
    raise BadInput("validity", f"Send one of {', '.join(_VALIDITIES)}.")


def _status(text: str) -> ApprovalStatus:
    for known in _STATUSES:
        if text == known:
            return known
    raise BadInput("status", "Send the status that the page showed.")


def _by_now(approval: Approval) -> str:
    by = f" by {approval.decided_by}" if approval.decided_by and approval.status != "expired" else ""
    return f"It is {approval.status}{by} by now."


def _last(approval: Approval) -> float:
    return max(approval.decided or 0.0, approval.used or 0.0) or approval.expires
