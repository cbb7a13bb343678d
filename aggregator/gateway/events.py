"""What happens besides calls, put into words for the audit: logins, policies, upstreams, their tools."""

import time
from collections.abc import Mapping
from typing import Final

from aggregator.catalog.difference import Difference
from aggregator.gateway.observing import Observing
from aggregator.identity.identify import Facts, Refused
from aggregator.policy.live import Live, Reloaded
from aggregator.upstream.link import Link

# Who keeps knocking gets one row in so long, with a count: nobody can push the rows of others out of the log.
_KNOCKS: Final = 60.0
_KNOCKERS: Final = 1_000
_LINES: Final = 50


class Events:
    """Notes what differs from what it was told before."""

    def __init__(self, observing: Observing, links: Mapping[str, Link]) -> None:
        self._observing = observing
        self._links = links
        self._states: dict[str, str] = {name: link.state for name, link in links.items()}
        self._knocks: dict[tuple[str, str], tuple[float, int]] = {}

    def login_refused(self, facts: Facts, refused: Refused) -> None:
        """Somebody was not let in."""
        now = time.time()
        key = facts.peer or facts.door, refused.reason
        since, more = self._knocks.get(key, (0.0, 0))
        if now - since < _KNOCKS:
            self._knocks[key] = since, more + 1
            return
        if len(self._knocks) >= _KNOCKERS:
            self._knocks = {known: (at, count) for known, (at, count) in self._knocks.items() if now - at < _KNOCKS}
        if len(self._knocks) < _KNOCKERS:
            self._knocks[key] = now, 0
        details = {"door": facts.door, "address": facts.peer, "status": refused.status, "as_often_before": more}
        self._observing.note("login_refused", refused.reason, details=details)

    def policies_read(self, live: Live, reloaded: Reloaded) -> None:
        """The policy files were read again."""
        if reloaded.changed and live.rulebook is not None:
            lines = list(reloaded.diff.lines())
            details = {"revision": live.rulebook.revision, "changes": lines[:_LINES], "more": len(lines[_LINES:])}
            self._observing.note("policy_reloaded", f"policies: {live.rulebook.revision} is in force", details=details)
        if live.broken:
            problems = [str(problem) for problem in reloaded.problems if problem.severity == "error"]
            said = "the policy files have errors, so the rules that were in force stay"
            self._observing.note("policy_broken", said, details={"problems": problems[:_LINES]})

    def links_changed(self) -> None:
        """An upstream may have another state."""
        for name, link in self._links.items():
            before, now = self._states[name], link.state
            if before != now:
                self._states[name] = now
                said = f"{name} is {now}" + (f": {link.reason}" if link.reason else "")
                self._observing.note("upstream_state", said, server=name, details={"from": before, "to": now})

    def tools_changed(self, server: str, changes: Difference) -> None:
        """A server has other tools than when it was last seen."""
        details = {"added": changes.added, "removed": changes.removed, "changed": changes.changed}
        self._observing.note("tools_changed", f"{server} has other tools: {changes}", server=server, details=details)
