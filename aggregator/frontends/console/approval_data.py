"""The facts about a call that an approval displays, as plain data."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from aggregator.config.model import Config
from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.values import schema_in, shown_arguments_of
from aggregator.policy.annotations import claimed_annotations, with_declared
from aggregator.storage.approvals import people_of
from aggregator.storage.audit.recent import neighbours
from aggregator.storage.errors import StorageError
from aggregator.storage.opening import Database
from aggregator.storage.records import Approval, ToolVersion, VersionSeen

# Calls before and after the one in question.
_NEIGHBOURS: Final = 6
# Of a description that a server wrote.
_DESCRIPTION: Final = 8_000


def listed(approval: Approval, waits: Mapping[str, float], now: float) -> dict[str, Any]:
    """Return one entry of the list; `waits` are the seconds for which the call of a question still waits."""
    left = waits.get(approval.id)
    return {
        "id": approval.id,
        "agent": approval.agent_id,
        "tool": approval.tool,
        "status": approval.status,
        "created": approval.created,
        "waited": max(0.0, now - approval.created),
        "waits": round(left) if left is not None else None,
        "expires": approval.expires,
        "decided": approval.decided,
        "by": approval.decided_by,
        "valid_until": approval.valid_until if approval.status in ("approved", "expired") else None,
        "uses": approval.uses,
        "used": approval.used,
        "needed": approval.needed,
        "agreed": len(people_of(approval)),
        "asked_again": approval.asked_again,
    }


class ApprovalData:
    """The facts about one question, from the queue, the definitions of the server, and the audit."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    async def question(self, approval: Approval, now: float) -> dict[str, Any]:
        """Return all facts about a request for approval.

        Raises:
            StorageError: the database cannot be read.
        """
        database = await self._parts.opened()
        asked = await self._definition(database, approval)
        before = await database.approvals.last_approved(approval.agent_id, approval.tool, before=approval.created)
        agreed, other = None, before is not None and before.schema_version != approval.schema_version
        if before is not None and other:
            agreed = await self._definition(database, before)
        newest = None
        if asked is not None:
            newest = next(iter(await database.catalogs.history(asked.server, asked.name, 1)), None)
        rows = await asyncio.to_thread(_rows, approval, asked, before)
        held = self._parts.browser.held(approval.tool)
        return {
            **listed(approval, self._parts.answers.waits(), now),
            "digest": approval.digest,
            "server": approval.server,
            "rule": approval.rule,
            "rule_source": approval.rule_source,
            "trace_id": approval.trace_id,
            "conversation_id": approval.conversation_id,
            "note": approval.note,
            "people": list(people_of(approval)),
            **rows,
            "last_approved": None
            if before is None
            else {"id": before.id, "at": before.decided, "by": before.decided_by},
            "held": held.why.why if held is not None else "",
            "another_definition": other,
            "definition": self._described(approval, asked, agreed, newest, await self._only_reads(approval)),
            "neighbours": await self._neighbours(database, approval),
        }

    async def _definition(self, database: Database, approval: Approval) -> ToolVersion | None:
        """Return the tool's definition at the time of the request."""
        if approval.server is None or not approval.schema_version:
            return None
        kept = await database.catalogs.by_digest(approval.server, approval.schema_version)
        if kept is not None:
            return kept
        # Definitions are kept a moment after a server has listed its tools.
        tool = await self._parts.browser.find(self._parts.browser.view(None), approval.tool)
        if tool is None or tool.version != approval.schema_version:
            return None
        text = await asyncio.to_thread(json.dumps, tool.definition)
        return ToolVersion(tool.server, tool.own_name, tool.version, text, approval.created, approval.created)

    def _described(
        self,
        approval: Approval,
        asked: ToolVersion | None,
        agreed: ToolVersion | None,
        newest: VersionSeen | None,
        read_only: bool,
    ) -> dict[str, Any] | None:
        """Return the server's description of its tool, now and at the last approved call of it."""
        if asked is None:
            return None
        now, then = _parsed(asked), _parsed(agreed) if agreed is not None else None
        trusted = _is_trusted(self._parts.config(), approval.server)
        annotations = claimed_annotations(now, trusted=trusted)
        annotations = with_declared(annotations, read_only=read_only, idempotent=False)
        text, was = _description(now), _description(then) if then is not None else None
        return {
            "text": text,
            "since": asked.first_seen,
            "changed": was is not None and was != text,
            "was": was if was != text else None,
            "other_parameters": then is not None and then.get("inputSchema") != now.get("inputSchema"),
            # The server has a newer definition than the one in the request.
            "outdated": newest is not None and newest.digest != asked.digest and newest.first_seen > approval.created,
            "trusted": trusted,
            "tags": [
                words
                for holds, words in (
                    (annotations.destructive, "may destroy something"),
                    (annotations.open_world, "reaches the open world"),
                    (annotations.read_only, "only reads"),
                    (annotations.idempotent, "may be repeated"),
                )
                if holds
            ],
        }

    async def _only_reads(self, approval: Approval) -> bool:
        """Return whether the policy, or a trusted server, says that the tool only reads."""
        principal = self._parts.browser.principal(approval.agent_id)
        if principal is None:
            return False
        view = self._parts.browser.view(principal)
        tool = await self._parts.browser.find(view, approval.tool)
        return tool is not None and view.read_only(tool)

    async def _neighbours(self, database: Database, approval: Approval) -> dict[str, Any] | None:
        """Return the calls of the agent before and after; None if the log cannot be read."""
        conversation, besides = approval.conversation_id, approval.trace_id
        try:
            before, after = await neighbours(
                database.engine, approval.agent_id, conversation, approval.created, most=_NEIGHBOURS, besides=besides
            )
        except StorageError:
            return None
        return {"before": [asdict(call) for call in before], "after": [asdict(call) for call in after]}


def since_midnight(now: float) -> float:
    """Return when today began, by the clock of this machine."""
    return datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0).timestamp()


def _rows(approval: Approval, asked: ToolVersion | None, before: Approval | None) -> dict[str, Any]:
    """Return the arguments as rows; on a thread, since there may be many."""
    if approval.arguments is None:
        return {"arguments": None, "summary": approval.summary}
    arguments = json.loads(approval.arguments)
    schema = schema_in(asked.text) if asked is not None else None
    last = json.loads(before.arguments) if before is not None and before.arguments is not None else None
    return {"arguments": shown_arguments_of(arguments, schema, last), "summary": None}


def _parsed(version: ToolVersion) -> dict[str, Any]:
    try:
        found = json.loads(version.text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _description(definition: Mapping[str, Any]) -> str:
    said = definition.get("description")
    return said[:_DESCRIPTION] if isinstance(said, str) else ""


def _is_trusted(config: Config, server: str | None) -> bool:
    return any(one.id == server and one.trusted for one in config.servers)
