"""What happens besides calls, put into words for the audit: logins, policies, upstreams, their tools."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aggregator.app.telemetry import CallTelemetry
from aggregator.catalog.difference import ToolChanges as OtherTools
from aggregator.config.difference import ConfigChanges
from aggregator.identity.identify import Refused, RequestFacts
from aggregator.policy.live import LivePolicies, Reloaded
from aggregator.storage.records import Approval
from aggregator.upstream.upstream import Upstream

# Who keeps knocking gets a row at once, and one with a count after so long: nobody can fill the log with them.
KNOCKS: Final = 60.0
# Beyond so many, all count as one.
_KNOCKERS: Final = 1_000
_OTHERS: Final = "others"
_LINES: Final = 50


@dataclass(slots=True)
class _RefusedLogins:
    """`more` after the first; `timer` is when they are told."""

    details: dict[str, Any]
    reason: str
    timer: asyncio.TimerHandle
    more: int = 0


class AuditEvents:
    """Notes what differs from what it was told before."""

    def __init__(self, observing: CallTelemetry, links: Mapping[str, Upstream]) -> None:
        self._observing = observing
        self._links = links
        self._states: dict[str, str] = {name: _state(link) for name, link in links.items()}
        self._knocks: dict[tuple[str, str], _RefusedLogins] = {}

    def login_refused(self, facts: RequestFacts, refused: Refused) -> None:
        """Somebody was not let in."""
        if self._observing.audit is None:
            return
        # How long somebody has to wait differs from one time to the next.
        why = refused.reason if refused.retry_after is None else str(refused.status)
        key = facts.source.address or facts.door, why
        if key not in self._knocks and len(self._knocks) >= _KNOCKERS:
            key = _OTHERS, str(refused.status)
        if key in self._knocks:
            self._knocks[key].more += 1
            return
        details = {"door": facts.door, "address": facts.source.address, "status": refused.status}
        timer = asyncio.get_running_loop().call_later(KNOCKS, self._tell_knocks, key)
        self._knocks[key] = _RefusedLogins(details, refused.reason, timer)
        self._observing.note("login_refused", refused.reason, details=details)

    def close(self) -> None:
        """Tell what is still to be told."""
        for key in list(self._knocks):
            self._tell_knocks(key)

    def _tell_knocks(self, key: tuple[str, str]) -> None:
        knocks = self._knocks.pop(key)
        knocks.timer.cancel()
        if knocks.more:
            said = f"{knocks.reason} ({knocks.more} more since then)"
            details = {**knocks.details, "address": key[0], "more": knocks.more}
            self._observing.note("login_refused", said, details=details)

    def policies_read(self, live: LivePolicies, reloaded: Reloaded) -> None:
        """The policy files were read again."""
        if reloaded.changed and live.rulebook is not None:
            lines = list(reloaded.diff.lines())
            details = {"revision": live.rulebook.revision, "changes": lines[:_LINES], "more": len(lines[_LINES:])}
            self._observing.note("policy_reloaded", f"policies: {live.rulebook.revision} is in force", details=details)
        if live.broken:
            problems = [str(problem) for problem in reloaded.problems if problem.severity == "error"]
            said = "the policy files have errors, so the rules that were in force stay"
            self._observing.note("policy_broken", said, details={"problems": problems[:_LINES]})

    def approval_queued(self, approval: Approval) -> None:
        """A call waits for a person."""
        said = f"The call of {approval.tool} by {approval.agent_id} waits for a person."
        details = {
            "approval": approval.id,
            "tool": approval.tool,
            "answer": approval.status,
            "arguments_digest": approval.digest,
        }
        self._observing.note("approval", said, agent=approval.agent_id, details=details)

    def links_changed(self) -> None:
        """An upstream may have another state."""
        for name, link in self._links.items():
            before, now = self._states.get(name, "starting"), _state(link)
            # That we end is not what became of them.
            if before != now and not link.life.over:
                self._states[name] = now
                why = link.reason or ("" if link.health.answers else link.health.told())
                said = f"{name} is {now}" + (f": {why}" if why else "")
                self._observing.note("upstream_state", said, server=name, details={"from": before, "to": now})

    def config_read(self, taken: ConfigChanges | None, refused: tuple[str, ...]) -> None:
        """The configuration was read again: what it means, or why it is not used."""
        if taken is None:
            said = "the configuration has errors, so the one in force stays"
            self._observing.note("config_refused", said, details={"problems": list(refused[:_LINES])})
            return
        for name in taken.removed:
            self._states.pop(name, None)
        said = f"configuration: {'; '.join(taken.lines())}"
        self._observing.note("config_reloaded", said, details=taken.details())

    def tools_changed(self, server: str, changes: OtherTools) -> None:
        """A server has other tools than when it was last seen."""
        details = {"added": changes.added, "removed": changes.removed, "changed": changes.changed}
        self._observing.note("tools_changed", f"{server} has other tools: {changes}", server=server, details=details)


def _state(link: Upstream) -> str:
    """Its state, and whether there is anybody behind the connection."""
    return "silent" if link.state == "ready" and not link.health.answers else link.state
