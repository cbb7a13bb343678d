"""One call in full: its timeline, arguments and result, its origin, and a way to repeat it."""

import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from aggregator.domain.records import ToolRecord
from aggregator.frontends.console.calls.rows import listed
from aggregator.frontends.console.calls.timeline import CallContext, timeline
from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.tool_data import call_line, link
from aggregator.frontends.console.values import shown_arguments_of, shown_value
from aggregator.gateway.browse import HeldTool
from aggregator.policy.explain import explain
from aggregator.storage.audit.query import with_term
from aggregator.storage.errors import NoSuchRow

# Characters of a value, and of a line to copy.
_VALUE: Final = 40_000
_LINE: Final = 6_000
_EXPECTED: Final = {"denied": "deny", "invalid": "invalid", "pending": "confirm"}
# Blocks of a result of which the texts are shown.
_BLOCKS: Final = 20


class OneCall:
    """The maker of the data of one call."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    async def data(self, row: Mapping[str, Any], *, values: bool) -> dict[str, Any]:
        """Return all data about a call; the stored arguments and result only with `values`."""
        known = await self._surroundings(row, values=values)
        data = {name: value for name, value in row.items() if name not in ("arguments", "result", "steps")}
        data = listed(data, values=values)
        data["digest"] = row["digest"] if values else None
        data["timeline"] = timeline({**row, **_error(data)}, known, values=values)
        data["policy"] = {"said": known.policy, "source": known.source, "as_now": known.as_now}
        tool = self._tool(row)
        schema = tool.definition["inputSchema"] if tool is not None and tool.version == row["schema_version"] else None
        for name in ("arguments", "result"):
            data[name] = await asyncio.to_thread(_kept, row, name, values, schema)
        template = self._parts.config().console.trace_url
        data["trace_url"] = template.replace("{trace_id}", row["trace_id"]) if template is not None else None
        data["repeat"] = await asyncio.to_thread(_repeat, row, values)
        held = self._held(row)
        data["held"] = held.why.why if held is not None else ""
        data["capture"] = self._parts.config().audit.capture
        data["links"], data["queries"] = self._links(row, held.tool if held is not None else tool), _queries(row)
        return data

    async def _surroundings(self, row: Mapping[str, Any], *, values: bool) -> CallContext:
        policy, source, as_now = row.get("rule"), row.get("rule_source"), False
        if policy is None and row.get("tool_name") is not None and self._parts.policies is not None:
            found = await asyncio.to_thread(self._explained, row)
            if found is not None:
                policy, source = found
                database = await self._parts.opened()
                then = await database.calls.revision_before(row["seq"], row.get("chain", 0))
                rulebook = self._parts.policies.rulebook
                as_now = rulebook is None or then is None or then != rulebook.revision
        return CallContext(policy, source, as_now, await self._person(row, values=values))

    def _explained(self, row: Mapping[str, Any]) -> tuple[str, str | None] | None:
        """Return why the current policies allow an allowed call, with the place."""
        rulebook = self._parts.policies.rulebook if self._parts.policies is not None else None
        tool = self._tool(row)
        if rulebook is None or tool is None:
            return None
        decision = explain(rulebook, row["agent_id"], tool).decision
        return f"{decision.verdict}: {decision.reason}", decision.source

    def _tool(self, row: Mapping[str, Any]) -> ToolRecord | None:
        """Return the tool that was called, if it is still there."""
        if row.get("schema_version") is None:
            return None
        return self._parts.gateway.catalog.of_server(row.get("server_id", ""), row.get("own_name", ""))

    def _held(self, row: Mapping[str, Any]) -> HeldTool | None:
        """Return the tool of a row if it waits for an approval now."""
        browser = self._parts.browser
        found = browser.held_of(row.get("server_id", ""), row.get("own_name", ""))
        return found or (browser.held(row["tool_name"]) if "own_name" not in row and "tool_name" in row else None)

    def _links(self, row: Mapping[str, Any], tool: ToolRecord | None) -> dict[str, str]:
        """Return the pages, below the console's path, of the agents, tools and servers in a row."""
        links = {}
        if self._parts.browser.principal(row["agent_id"]) is not None:
            links["agent"] = link("agents", row["agent_id"])
        for name, column in (("server", "server_id"), ("answered_by", "answered_by")):
            if row.get(column) in self._parts.upstreams:
                links[name] = link("servers", row[column])
        if tool is not None:
            links["tool"] = link("tools", tool.name)
        if "approval_id" in row:
            links["approval"] = link("approvals", row["approval_id"])
        return links

    async def _person(self, row: Mapping[str, Any], *, values: bool) -> str | None:
        if "approval_id" not in row:
            return None
        with suppress(NoSuchRow):
            found = await (await self._parts.opened()).approvals.get(row["approval_id"], now=time.time())
            if found.decided_by is None:
                return "waits for an answer"
            answer = "said no" if found.status == "denied" else "agreed"
            return f"{found.decided_by} {answer}" + (f": {found.note}" if found.note and values else "")
        return None


def _error(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"error_message": data["error_message"]} if "error_message" in data else {}


def _queries(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the queries that find the calls which have something in common with this one."""
    keys = {"user": "user_id", "conversation": "conversation_id", "trace": "trace_id"}
    return {key: with_term("", key, row[column]) for key, column in keys.items() if column in row}


def _kept(row: Mapping[str, Any], name: str, values: bool, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the data about arguments or a result: their size, and with `values` the digest and the stored value.

    `value` is the stored value if it is complete; `cut` is the beginning of a longer one. `shown` and `texts` are for
    the page: the rows of arguments, or of a result, and the texts in it.
    """
    told: dict[str, Any] = {"bytes": row.get(f"{name}_bytes"), "digest": row.get(f"{name}_digest") if values else None}
    told |= {"kept": name in row, "value": None, "cut": None, "shown": None, "texts": []}
    if name not in row or not values:
        return told
    try:
        value = json.loads(row[name])
    except (ValueError, RecursionError):
        told["cut"] = row[name][:_VALUE]
        return told
    told["value"] = value
    if name == "arguments" and isinstance(value, dict):
        told["shown"] = shown_arguments_of(value, schema)
    else:
        told["shown"] = shown_value(value)
        content = value.get("content") if isinstance(value, dict) else None
        blocks = content[:_BLOCKS] if isinstance(content, list) else []
        texts = [one["text"] for one in blocks if isinstance(one, dict) and isinstance(one.get("text"), str)]
        told["texts"] = [text[:_VALUE] for text in texts]
    return told


def _repeat(row: Mapping[str, Any], values: bool) -> dict[str, Any]:
    """Return the command line and the policy case of a call. Arguments that are not known in full are left out."""
    tool = row.get("tool_name")
    if tool is None or row["frontend"] == "" or row.get("schema_version") is None:
        return {}
    arguments: dict[str, Any] | None = None
    if values and "arguments" in row:
        try:
            given = json.loads(row["arguments"])
            arguments = given if isinstance(given, dict) else None
        except (ValueError, RecursionError):
            arguments = None
    line = call_line(tool, arguments or {}, row["agent_id"])
    case: dict[str, Any] = {"agent": row["agent_id"], "tool": tool}
    expected = "confirm" if "approved_by" in row else _EXPECTED.get(row["status"], "allow")
    if expected == "invalid" and arguments is not None:
        case["arguments"] = arguments
    elif expected == "invalid":
        expected = "allow"
    case["expect"] = expected
    written = json.dumps(case, ensure_ascii=False)
    return {
        "line": line if len(line) <= _LINE else None,
        "with_arguments": arguments is not None,
        "case": f"- {written}" if len(written) <= _LINE else None,
    }
