"""The policies: an explained decision, an agent's view, recent refusals, and the current files."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aggregator.domain.errors import OperatorError
from aggregator.domain.problems import Problem
from aggregator.domain.records import ToolRecord
from aggregator.frontends.console.pages.policy_texts import PolicyTexts
from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.tool_data import pin_link
from aggregator.frontends.console.view import BadInput, ConsoleRequest, NotThere, PageRoute, PageView
from aggregator.pins.gateway.state import HeldItem
from aggregator.policy.explain import explain
from aggregator.policy.limits import OF_RESULTS
from aggregator.policy.patterns import Target
from aggregator.policy.rulebook import target_of
from aggregator.storage.audit.rule_counts import RefusalCount, RuleCounts

# Newest calls searched for refusals, and the number of refusals shown.
_NEWEST: Final = 20_000
_REFUSALS: Final = 12
_AGENTS: Final = 50
_NAME: Final = 2_000
_NAMES: Final = 60
# Characters of the earlier reads that are shown again.
_AFTER: Final = 20_000
_LARGEST_ARGUMENTS: Final = 256 * 1024
# Lines of a file on one page.
_LINES: Final = 300
_LINE: Final = 500

_FIELDS: Final = {
    "agent": "the agent",
    "tool": "a tool as server.tool, or resource:server.uri, prompt:server.name, skill:server.name",
    "after": "what was read before, for flow rules: full names or labels, one a line; optional",
    "arguments": "the arguments of the call, as a JSON object; optional",
}

_STRINGS: Final = {"type": "array", "items": {"type": "string"}}
_OBJECTS: Final = {"type": "array", "items": {"type": "object"}}
_VERDICT: Final = {
    "type": ["object", "null"],
    "properties": {
        "sentence": {"type": "string"},
        "verdict": {"enum": ["allow", "confirm", "deny"]},
        "expect": {"enum": ["allow", "confirm", "deny", "invalid"]},
        "findings": _OBJECTS,
        "changes": _STRINGS,
        "conditions": _STRINGS,
        "after": _OBJECTS,
        "faults": {"type": ["array", "null"], "items": {"type": "object"}},
        "limits": _OBJECTS,
        "case": {"type": "string", "description": "The call as a file of policies/cases."},
    },
}
_ANSWER: Final = {
    "type": "object",
    "properties": {
        "verdict": _VERDICT,
        "nearest": _STRINGS,
        "seen": {"type": ["object", "null"], "description": "What the agent sees, and what its list costs."},
        "refusals": _OBJECTS,
        "files": _STRINGS,
        "problems": _OBJECTS,
        "revision": {"type": ["string", "null"]},
    },
}


class PoliciesPage:
    """The playground of the policies."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts
        self._playground = parts.gateway.playground
        self._texts = PolicyTexts(parts)

    def routes(self) -> Sequence[PageRoute]:
        """Return the ways to it."""
        asked = {name: said for name, said in _FIELDS.items() if name != "arguments"}
        return [
            PageRoute(
                "GET", "/policies", "viewer", self.show, "The policies: a decision, refusals, files", fields=asked
            ),
            PageRoute("POST", "/policies/explain", "viewer", self.explain, "Explain a decision", _ANSWER, _FIELDS),
            PageRoute(
                "GET",
                "/policies/files/{name}",
                "viewer",
                self.file,
                "One policy file, without the hashes of keys",
                fields={"line": "the line to show, from 1"},
            ),
        ]

    async def show(self, request: ConsoleRequest) -> PageView:
        """Return the page."""
        return await self._page(request, request.query, "")

    async def explain(self, request: ConsoleRequest) -> PageView:
        """Return the page with the decision on a call; its arguments are in no address."""
        return await self._page(request, request.form, request.form.get("arguments", ""))

    async def file(self, request: ConsoleRequest) -> PageView:
        """Return a policy file, with one line lit."""
        name = request.path["name"].removesuffix("/")
        source = self._texts.source(name)
        live = self._parts.policies
        if source is None or live is None:
            raise NotThere(f"There is no policy file {name[:100]!r}.")
        lit = _line(request.query.get("line", ""))
        lines = source.text.split("\n")
        first = max(0, min(lit - _LINES // 2, len(lines) - _LINES)) if lit else 0
        now = self._texts.now(name)
        window = await asyncio.to_thread(self._texts.masked, source, first, _LINES)
        data = {
            "name": name,
            "line": lit or None,
            "total": len(lines),
            "in_force": source in live.in_force,
            "changed": now is None or now.text != source.text,
            "problems": problem_data(self._texts, (*live.problems, *live.warnings)),
            "before": max(1, first - _LINES // 2) if first else None,
            "after": first + _LINES + _LINES // 2 if first + _LINES < len(lines) else None,
            "lines": [
                {"number": at + 1, "text": text[:_LINE], "lit": at + 1 == lit} for at, text in enumerate(window, first)
            ],
        }
        return PageView("policy_file.html", f"Policies: {name}", data)

    async def _page(self, request: ConsoleRequest, asked: Mapping[str, str], arguments: str) -> PageView:
        agent, tool = (asked.get(name, "").strip()[:_NAME] for name in ("agent", "tool"))
        after = asked.get("after", "").strip()
        verdict: Mapping[str, Any] | None = None
        nearest: list[str] = []
        failed = None
        try:
            given = _arguments(arguments)
            if agent and tool:
                verdict, nearest = await self._verdict(agent, tool, given, after)
        except BadInput as bad:
            if request.as_json:
                raise
            # What was typed stays.
            failed = str(bad)
        live = self._parts.policies
        data = {
            "agent": agent,
            "tool": tool,
            "after": after[:_AFTER],
            "arguments": arguments,
            "agents": self._playground.agents(agent if verdict is None else "", _AGENTS),
            "failed": failed,
            "verdict": verdict,
            "nearest": nearest,
            "seen": await self._seen(agent) if agent else None,
            "open": live is None or live.rulebook is None,
            "revision": live.rulebook.revision if live is not None and live.rulebook is not None else None,
            "problems": problem_data(self._texts, (*live.problems, *live.warnings)) if live is not None else [],
            "files": self._texts.names()[:_AGENTS],
            "refusals": [] if request.fragment else await self._refusals(),
            "newest": _NEWEST,
        }
        # A fragment with another status would not be put into the page.
        status = 400 if failed is not None and not request.fragment else 200
        return PageView("policies.html", "Policies", data, status, fragment="_policy_answer.html")

    async def _verdict(
        self, agent: str, tool: str, given: dict[str, Any] | None, after: str
    ) -> tuple[Mapping[str, Any] | None, list[str]]:
        if self._parts.browser.meta_tool(tool) is not None:
            said = f"{tool} is a tool of the aggregator itself: each call it makes is decided by the name of its tool."
            raise BadInput("tool", said)
        try:
            thing = self._playground.find(tool)
        except OperatorError as error:
            raise BadInput("tool", str(error)) from None
        try:
            earlier = self._playground.earlier([line.strip() for line in after.splitlines() if line.strip()])
        except OperatorError as error:
            raise BadInput("after", str(error)) from None
        explained = await self._playground.explain(agent, thing, given, earlier)
        nearest: list[str] = []
        exists = self._playground.exists(thing)
        if not exists:
            nearest = await self._parts.browser.nearest(self._parts.browser.view(None), tool)
        texts = self._texts
        data = texts.relative(explained.data())
        plain = explained.data()
        of_results = {name: plain[name] for name in ("result_limit", "token_limit")}
        return {
            **data,
            "server": thing.server,
            "exists": exists,
            "away": self._away(thing.server),
            "pin_href": _pin_page(thing, self._playground.held(thing)),
            "place": texts.place(plain["source"]),
            "findings": texts.relative(texts.with_places(plain["findings"])),
            "faults": texts.with_places(plain["faults"]) if plain["faults"] is not None else None,
            "limits": texts.relative(texts.with_places(plain["limits"])),
            "schemas": texts.relative(texts.with_places(plain["schemas"])),
            **{
                name: texts.relative({**limit, "place": texts.place(limit["source"])}) if limit else None
                for name, limit in of_results.items()
            },
        }, nearest

    def _away(self, server: str) -> str:
        """Return the state of a server that has nothing to call now; empty for any other."""
        upstream = self._parts.upstreams.get(server)
        return upstream.state if upstream is not None and upstream.away else ""

    async def _seen(self, agent: str) -> Mapping[str, Any]:
        return await self._playground.seen_by(agent, _NAMES)

    async def _refusals(self) -> list[Mapping[str, Any]]:
        database = await self._parts.opened()
        counted = await RuleCounts(database.engine).refusals(_REFUSALS, _NEWEST)
        return [self._refusal(one) for one in counted]

    def _refusal(self, one: RefusalCount) -> Mapping[str, Any]:
        return {
            "agent": one.agent[:_NAME],
            "tool": one.tool[:_NAME],
            "rule": self._texts.relative(one.rule),
            "place": self._texts.place(one.source),
            "calls": one.calls,
            "last": one.last,
            "allow": self._texts.relative(self._allowing(one)),
        }

    def _allowing(self, one: RefusalCount) -> list[str]:
        """Return what would have to be written for such a call to be allowed, by the rules in force now."""
        live = self._parts.policies
        if live is None or live.rulebook is None:
            return ["It is allowed now: there are no policy files."]
        try:
            thing = self._playground.find(one.tool)
        except OperatorError:
            return []
        trusted = self._parts.gateway.views.is_trusted(thing.server)
        found = explain(live.rulebook, one.agent, thing, trusted=trusted)
        if found.decision.verdict == "deny":
            return list(found.changes)
        held = self._playground.held(thing)
        if held is not None:
            return [f"It is allowed now, once its definition is approved: {held.why}."]
        rule = one.rule or ""
        if "flow: " in rule or rule.startswith(("arguments ", "per_", "concurrent", *OF_RESULTS)):
            return [f"change {rule}" + (f" ({one.source})" if one.source else "")]
        asked = ", once a person agreed" if found.decision.verdict == "confirm" else ""
        return [f"It is allowed now{asked}: the rules were changed."]


def problem_data(texts: PolicyTexts, problems: Sequence[Problem], most: int = 20) -> list[Mapping[str, Any]]:
    """Return problems of policy files as plain values, at most so many."""
    return [
        {
            "place": texts.place(one.file) or {"text": one.file, "href": None},
            "line": int(line) if (line := one.file.rpartition(":")[2]).isdigit() else None,
            "where": one.where[:_LINE],
            "message": one.message[:_LINE],
            "fix": one.fix[:_LINE],
            "severity": one.severity,
        }
        for one in problems[:most]
    ]


def _pin_page(thing: ToolRecord | Target, held: HeldItem | None) -> str:
    """Return the page on which the definition of a tool or prompt, or a held one, is reviewed; empty for the rest."""
    if held is not None:
        return pin_link(held.server, held.kind, held.name)
    target = thing if isinstance(thing, Target) else target_of(thing)
    # What waits of a tool that its server calls otherwise now is found by that name.
    target = target.as_sent or target
    return pin_link(target.server, target.kind, target.name) if target.kind in ("tool", "prompt") else ""


def _arguments(text: str) -> dict[str, Any] | None:
    """Return the arguments that were typed; None for none.

    Raises:
        BadInput: they are no JSON object.
    """
    if not text.strip():
        return None
    if len(text) > _LARGEST_ARGUMENTS:
        raise BadInput("arguments", f"Arguments of at most {_LARGEST_ARGUMENTS // 1024} KiB can be tried here.")
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        place = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise BadInput("arguments", f"The arguments are not valid JSON{place}: write an object as {{}}.") from None
    if not isinstance(given, dict):
        raise BadInput("arguments", 'Arguments are a JSON object, such as {"limit": 50}.')
    return given


def _line(text: str) -> int:
    """Return the number of a line; 0 for none.

    Raises:
        BadInput: it is no number.
    """
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal()) or len(text) > 7:
        raise BadInput("line", "`line` is a number from 1.")
    return int(text)
