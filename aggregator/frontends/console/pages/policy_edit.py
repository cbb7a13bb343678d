"""A policy file beside an editor, and the effects of the text in the editor. Nothing is written."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from aggregator.domain.errors import OperatorError
from aggregator.frontends.console.pages.policies import problem_data
from aggregator.frontends.console.pages.policy_texts import PolicyTexts, visible
from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.view import BadInput, ConsoleRequest, PageRoute, PageView
from aggregator.policy.compare.diff import ChangeGroup, PolicyDiff, worded
from aggregator.policy.compare.edits import PolicyEdit, TriedEdit
from aggregator.policy.compare.tool_sets import ToolSet
from aggregator.storage.audit.rule_counts import CALLS, RuleCounts, ToolUse

_GROUPS: Final = 20
_PROBLEMS: Final = 50
_AGENTS: Final = 20
_TOOLS: Final = 10
_LARGEST_SHOWN: Final = 256 * 1024
_NEW: Final = "new.yaml"

_FIELDS: Final = {
    "name": "the name of the policy file, such as shop.yaml; one that is not there is a new one",
    "text": "its text",
    "remove": "1 to try what taking the file away would change",
    "count": "1 to count how many of the last calls would be decided otherwise",
}

_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "running": {"type": "string", "description": "The file as it is, without the hashes of keys."},
        "text": {"type": "string"},
        "result": {
            "type": ["object", "null"],
            "properties": {
                "problems": {"type": "array", "items": {"type": "object"}},
                "in_force": {"type": "boolean", "description": "Whether the files would come into force."},
                "groups": {"type": "array", "items": {"type": "object"}},
                "decisions": {"type": "integer"},
                "calls": {"type": ["integer", "null"]},
            },
        },
    },
}


class PolicyEditPage:
    """The editor of policy files that writes nothing."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts
        self._texts = PolicyTexts(parts)

    def routes(self) -> Sequence[PageRoute]:
        """Return the ways to it."""
        chosen = {"name": _FIELDS["name"]}
        said = "What an edit of a policy file would change; nothing is written"
        return [
            PageRoute("GET", "/policies/diff", "operator", self.show, "A policy file in an editor", _SCHEMA, chosen),
            PageRoute("POST", "/policies/diff", "operator", self.compare, said, _SCHEMA, _FIELDS),
        ]

    async def show(self, request: ConsoleRequest) -> PageView:
        """Return the editor with the current file."""
        names = self._texts.names()
        name = request.query.get("name", "").strip() or (names[0] if names else _NEW)
        running = await asyncio.to_thread(self._running, name)
        return self._view(name, running, running, None, remove=False, count=False)

    async def compare(self, request: ConsoleRequest) -> PageView:
        """Return what would change."""
        name, text = request.form.get("name", "").strip(), request.form.get("text", "").replace("\r\n", "\n")
        remove, count = (request.form.get(field, "") not in ("", "0", "false") for field in ("remove", "count"))
        try:
            tried = await self._parts.gateway.playground.try_edit(PolicyEdit(name, None if remove else text))
        except OperatorError as error:
            if request.as_json:
                raise BadInput("name", str(error)) from None
            # What was typed stays; a fragment with another status would not be put into the page.
            failed = self._view(name, "", text, None, remove=remove, count=count, failed=str(error))
            return failed if request.fragment else replace(failed, status=400)
        result = await self._result(tried, count)
        running = await asyncio.to_thread(self._running, name)
        return self._view(name, running, text, result, remove=remove, count=count)

    def _view(
        self,
        name: str,
        running: str,
        text: str,
        result: Mapping[str, Any] | None,
        *,
        remove: bool,
        count: bool,
        failed: str | None = None,
    ) -> PageView:
        live = self._parts.policies
        data = {
            "name": name[:200],
            "files": self._texts.names(),
            "is_new": self._texts.source(name) is None,
            "running": running,
            "text": visible(text),
            "remove": remove,
            "count": count,
            "most": CALLS,
            "open": live is None or live.rulebook is None,
            "failed": failed,
            "result": result,
        }
        return PageView("policy_diff.html", "Try a policy file", data, fragment="_policy_changes.html")

    def _running(self, name: str) -> str:
        """Return the current file for the editor; empty if it does not exist."""
        source = self._texts.now(name) or self._texts.source(name)
        if source is None:
            return ""
        if len(source.text) > _LARGEST_SHOWN:
            return "# Too large to be edited here: copy the file, and run `aggregator policy diff FILE`.\n"
        return visible("\n".join(self._texts.masked(source)))

    async def _result(self, tried: TriedEdit, count: bool) -> Mapping[str, Any]:
        problems = problem_data(self._texts, tried.problems, _PROBLEMS)
        found: dict[str, Any] = {
            "problems": problems,
            "more_problems": len(tried.problems) - len(problems),
            "in_force": tried.diff is not None,
            "revision": tried.rulebook.revision if tried.rulebook is not None else None,
        }
        if tried.diff is None:
            return found
        looked, uses = 0, list[ToolUse]()
        if count and tried.diff.groups:
            looked, uses = await RuleCounts((await self._parts.opened()).engine).calls()
        diff = tried.diff
        by_cause = _by_cause(diff)
        return {
            **found,
            "groups": [self._group(diff, groups, uses if count else None) for groups in by_cause[:_GROUPS]],
            "more_groups": len(by_cause) - len(by_cause[:_GROUPS]),
            "decisions": sum(group.size for group in diff.groups),
            "appeared": _some(diff.appeared),
            "vanished": _some(diff.vanished),
            "confirmers": [str(one) for one in (*diff.confirmers, *diff.tokens, *diff.flow)[:_AGENTS]],
            "uncounted": diff.uncounted,
            "looked_at": looked if count else None,
            "calls": _hit(diff, diff.groups, uses)[0] if count else None,
        }

    def _group(self, diff: PolicyDiff, groups: list[ChangeGroup], uses: list[ToolUse] | None) -> Mapping[str, Any]:
        calls, callers = _hit(diff, groups, uses) if uses is not None else (None, None)
        members: dict[str, ToolSet] = {}
        tools = 0
        for group in groups:
            tools |= group.tools
            for agent, changed in group.agents.items():
                members[agent] = members.get(agent, 0) | changed
        return {
            **self._texts.cause(groups[0].cause),
            "gained": groups[0].gained,
            "verdicts": [
                {
                    "before": worded(one.before, one.people[0]),
                    "after": worded(one.after, one.people[1]),
                    "decisions": one.size,
                }
                for one in groups
            ],
            "agents": len(members),
            "tools": tools.bit_count(),
            "decisions": sum(group.size for group in groups),
            "calls": calls,
            "callers": callers,
            "members": [
                {"agent": agent, "tools": list(diff.names(changed, _TOOLS)), "count": changed.bit_count()}
                for agent, changed in list(members.items())[:_AGENTS]
            ],
        }


def _by_cause(diff: PolicyDiff) -> list[list[ChangeGroup]]:
    """Return the groups that one line makes together, those it allows more by apart from the others."""
    found: dict[tuple[tuple[str, ...], bool], list[ChangeGroup]] = {}
    for group in diff.groups:
        found.setdefault((group.cause.key, group.gained), []).append(group)
    return sorted(found.values(), key=lambda groups: -sum(group.size for group in groups))


def _hit(diff: PolicyDiff, groups: Sequence[ChangeGroup], uses: list[ToolUse]) -> tuple[int, int]:
    """Return how many of the calls would be decided otherwise, and how many agents made them."""
    calls, callers = 0, set()
    sets = diff.sets
    for use in uses if sets is not None else ():
        assert sets is not None
        tool = sets.of_tool(use.tool)
        if tool and any(group.agents.get(use.agent, 0) & tool for group in groups):
            calls += use.calls
            callers.add(use.agent)
    return calls, len(callers)


def _some(names: Sequence[str]) -> Mapping[str, Any]:
    return {"count": len(names), "names": list(names[:_AGENTS])}
