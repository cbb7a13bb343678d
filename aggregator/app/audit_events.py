"""Audit events besides calls: refused logins, policies, configurations, upstream states, changed tools."""

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

# Seconds. The first refusal of a source gets a row at once, the others one row with a count after this time, so that
KNOCKS: Final = 60.0
# Sources that are counted apart; beyond that, all count as one.
_KNOCKERS: Final = 1_000
_OTHERS: Final = "others"
_LINES: Final = 50


@dataclass(slots=True)
class _RefusedLogins:
    """Repeated refusals of one source. `more` counts those after the first; `timer` ends the count."""

    details: dict[str, Any]
    reason: str
    timer: asyncio.TimerHandle
    more: int = 0


class AuditEvents:
    """The audit events besides calls. Each is written once, when something differs from before."""

    def __init__(self, observing: CallTelemetry, links: Mapping[str, Upstream]) -> None:
        self._observing = observing
        self._links = links
        self._states: dict[str, str] = {name: _state(link) for name, link in links.items()}
        self._knocks: dict[tuple[str, str], _RefusedLogins] = {}

    def login_refused(self, facts: RequestFacts, refused: Refused) -> None:
        """Record a refused request; repetitions are counted and recorded together."""
        if self._observing.audit is None:
            return
        # The text of a refusal with a waiting time differs each time.
        why = refused.reason if refused.retry_after is None else str(refused.status)
        key = facts.source.address or facts.frontend, why
        if key not in self._knocks and len(self._knocks) >= _KNOCKERS:
            key = _OTHERS, str(refused.status)
        if key in self._knocks:
            self._knocks[key].more += 1
            return
        details = {"frontend": facts.frontend, "address": facts.source.address, "status": refused.status}
        timer = asyncio.get_running_loop().call_later(KNOCKS, self._tell_knocks, key)
        self._knocks[key] = _RefusedLogins(details, refused.reason, timer)
        self._observing.record_event("login_refused", refused.reason, details=details)

    def close(self) -> None:
        """Record the counts that are still open."""
        for key in list(self._knocks):
            self._tell_knocks(key)

    def _tell_knocks(self, key: tuple[str, str]) -> None:
        knocks = self._knocks.pop(key)
        knocks.timer.cancel()
        if knocks.more:
            said = f"{knocks.reason} ({knocks.more} more since then)"
            details = {**knocks.details, "address": key[0], "more": knocks.more}
            self._observing.record_event("login_refused", said, details=details)

    def policies_read(self, live: LivePolicies, reloaded: Reloaded) -> None:
        """Record that the policy files were read again."""
        if reloaded.changed and live.rulebook is not None:
            lines = list(reloaded.diff.lines())
            details = {"revision": live.rulebook.revision, "changes": lines[:_LINES], "more": len(lines[_LINES:])}
            self._observing.record_event(
                "policy_reloaded", f"policies: {live.rulebook.revision} is in force", details=details
            )
        if live.broken:
            problems = [str(problem) for problem in reloaded.problems if problem.severity == "error"]
            said = "the policy files have errors, so the rules that were in force stay"
            self._observing.record_event("policy_broken", said, details={"problems": problems[:_LINES]})

    def approval_queued(self, approval: Approval) -> None:
        """Record that a call waits for an approval."""
        said = f"The call of {approval.tool} by {approval.agent_id} waits for a person."
        details = {
            "approval": approval.id,
            "tool": approval.tool,
            "answer": approval.status,
            "arguments_digest": approval.digest,
        }
        self._observing.record_event("approval", said, agent=approval.agent_id, details=details)

    def upstreams_changed(self) -> None:
        """Record the upstreams that have another state than before."""
        for name, link in self._links.items():
            before, now = self._states.get(name, "starting"), _state(link)
            # The end of this process is no event of an upstream.
            if before != now and not link.lifecycle.closed:
                self._states[name] = now
                why = link.reason or ("" if link.health.answers else link.health.problem())
                said = f"{name} is {now}" + (f": {why}" if why else "")
                self._observing.record_event("upstream_state", said, server=name, details={"from": before, "to": now})

    def config_read(self, taken: ConfigChanges | None, refused: tuple[str, ...]) -> None:
        """Record a new configuration, or the reasons why it is not used."""
        if taken is None:
            said = "the configuration has errors, so the one in force stays"
            self._observing.record_event("config_refused", said, details={"problems": list(refused[:_LINES])})
            return
        for name in taken.removed:
            self._states.pop(name, None)
        said = f"configuration: {'; '.join(taken.lines())}"
        self._observing.record_event("config_reloaded", said, details=taken.details())

    def tools_changed(self, server: str, changes: OtherTools) -> None:
        """Record that a server has other tools than when it was last seen."""
        details = {"added": changes.added, "removed": changes.removed, "changed": changes.changed}
        self._observing.record_event(
            "tools_changed", f"{server} has other tools: {changes}", server=server, details=details
        )


def _state(link: Upstream) -> str:
    """Return the state of an upstream; `silent` for one that is ready and does not answer."""
    return "silent" if link.state == "ready" and not link.health.answers else link.state
