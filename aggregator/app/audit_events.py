"""Audit events besides calls: refused logins, policies, configurations, upstream states, changed tools.

Notices to operators pass here too.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aggregator.accounts.grants.ports import TokenEventKind
from aggregator.app.telemetry import CallTelemetry
from aggregator.catalog.difference import ToolChanges as OtherTools
from aggregator.config.difference import ConfigChanges
from aggregator.domain.grant_owner import GrantOwner
from aggregator.identity.identify import Refused, RequestFacts
from aggregator.notify.app import NoticeEvents
from aggregator.policy.live import LivePolicies, Reloaded
from aggregator.storage.records import Approval
from aggregator.upstream.upstream import Upstream

# Seconds. The first refusal of a source gets a row at once, the others one row with a count after this time, so that
# repeated attempts cannot fill the log.
REPEATED_AFTER: Final = 60.0
# Sources that are counted apart; beyond that, all count as one.
_SOURCES: Final = 1_000
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

    def __init__(self, telemetry: CallTelemetry, upstreams: Mapping[str, Upstream], notices: NoticeEvents) -> None:
        self._telemetry = telemetry
        self._notices = notices
        self._upstreams = upstreams
        self._states: dict[str, str] = {name: _state(upstream) for name, upstream in upstreams.items()}
        self._refusals: dict[tuple[str, str], _RefusedLogins] = {}

    def login_refused(self, facts: RequestFacts, refused: Refused) -> None:
        """Record a refused request; repetitions are counted and recorded together."""
        if self._telemetry.audit is None:
            return
        # The text of a refusal with a waiting time differs each time.
        why = refused.reason if refused.retry_after is None else str(refused.status)
        key = facts.source.address or facts.frontend, why
        if key not in self._refusals and len(self._refusals) >= _SOURCES:
            key = _OTHERS, str(refused.status)
        if key in self._refusals:
            self._refusals[key].more += 1
            return
        details = {"frontend": facts.frontend, "address": facts.source.address, "status": refused.status}
        timer = asyncio.get_running_loop().call_later(REPEATED_AFTER, self._record_repeated, key)
        self._refusals[key] = _RefusedLogins(details, refused.reason, timer)
        self._telemetry.record_event("login_refused", refused.reason, details=details)

    def close(self) -> None:
        """Record the counts that are still open."""
        for key in list(self._refusals):
            self._record_repeated(key)

    def _record_repeated(self, key: tuple[str, str]) -> None:
        refusals = self._refusals.pop(key)
        refusals.timer.cancel()
        if refusals.more:
            said = f"{refusals.reason} ({refusals.more} more since then)"
            details = {**refusals.details, "address": key[0], "more": refusals.more}
            self._telemetry.record_event("login_refused", said, details=details)

    def policies_loaded(self, live: LivePolicies | None) -> None:
        """Record which policies are in force at the start, if there are any."""
        if live is not None and live.rulebook is not None:
            details = {"revision": live.rulebook.revision, "broken": live.broken}
            said = f"policies: {live.rulebook.revision} is in force"
            self._telemetry.record_event("policy_loaded", said, details=details)

    def policies_read(self, live: LivePolicies, reloaded: Reloaded) -> None:
        """Record that the policy files were read again."""
        if reloaded.changed and live.rulebook is not None:
            lines = list(reloaded.diff.lines())
            details = {"revision": live.rulebook.revision, "changes": lines[:_LINES], "more": len(lines[_LINES:])}
            self._telemetry.record_event(
                "policy_reloaded", f"policies: {live.rulebook.revision} is in force", details=details
            )
        if live.broken:
            problems = [str(problem) for problem in reloaded.problems if problem.severity == "error"]
            self._telemetry.record_event("policy_broken", live.effect, details={"problems": problems[:_LINES]})

    def approval_queued(self, approval: Approval) -> None:
        """Record that a call waits for an approval."""
        said = f"The call of {approval.tool} by {approval.agent_id} waits for a person."
        details = {
            "approval": approval.id,
            "tool": approval.tool,
            "answer": approval.status,
            "arguments_digest": approval.digest,
            **({"needed": approval.needed} if approval.needed > 1 else {}),
        }
        self._telemetry.record_event("approval", said, agent=approval.agent_id, details=details)
        self._notices.approval_waiting(approval)

    def upstreams_changed(self) -> None:
        """Record the upstreams that have another state than before."""
        for name, upstream in self._upstreams.items():
            before, now = self._states.get(name, "starting"), _state(upstream)
            # The end of this process is no event of an upstream.
            if before != now and not upstream.lifecycle.closed:
                self._states[name] = now
                why = upstream.reason or ("" if upstream.health.answers else upstream.health.problem())
                said = f"{name} is {now}" + (f": {why}" if why else "")
                self._telemetry.record_event("upstream_state", said, server=name, details={"from": before, "to": now})
                # Without the time of the next attempt, which is over when a notice is read.
                self._notices.server_state(name, now, upstream.lifecycle.current.reason or why)

    def server_action(self, server: str, done: str, by: str) -> None:
        """Record an operator's action on a server in the console."""
        said = f"{server} was {done} by {by}"
        self._telemetry.record_event("console", said, server=server, details={"action": done, "by": by})

    def token_event(
        self, kind: TokenEventKind, said: str, server: str, owner: GrantOwner, details: Mapping[str, Any]
    ) -> None:
        """Record what happened to the tokens of an account."""
        agent = owner.names[1] if owner.kind == "agent" else None
        found = {"what": kind, "owner": str(owner), **details}
        self._telemetry.record_event("account", said, agent=agent, server=server, details=found)

    def config_read(self, taken: ConfigChanges | None, refused: tuple[str, ...]) -> None:
        """Record a new configuration, or the reasons why it is not used."""
        if taken is None:
            said = "the configuration has errors, so the one in force stays"
            self._telemetry.record_event("config_refused", said, details={"problems": list(refused[:_LINES])})
            return
        for name in taken.removed:
            self._states.pop(name, None)
            self._notices.server_removed(name)
        said = f"configuration: {'; '.join(taken.lines())}"
        self._telemetry.record_event("config_reloaded", said, details=taken.details())

    def pins_event(self, server: str, said: str, details: Mapping[str, Any]) -> None:
        """Record what happened to the pins of a server."""
        self._telemetry.record_event("pins", said, server=server, details=details)

    def definitions_held(self, server: str, names: Sequence[str], why: str) -> None:
        """Notify operators that definitions of a server wait for an approval."""
        self._notices.definitions_held(server, names, why)

    def tools_changed(self, server: str, changes: OtherTools) -> None:
        """Record that a server's tools have changed since it was last seen."""
        details = {"added": changes.added, "removed": changes.removed, "changed": changes.changed}
        self._telemetry.record_event(
            "tools_changed", f"{server} has other tools: {changes}", server=server, details=details
        )
        self._notices.tools_changed(server, changes)


def _state(upstream: Upstream) -> str:
    """Return the state of an upstream; `silent` for one that is ready and does not answer."""
    return "silent" if upstream.state == "ready" and not upstream.health.answers else upstream.state
