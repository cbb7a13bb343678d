"""Notices: their content and wording. Texts of peers are bounded, visible and free of secrets."""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import quote

from aggregator.domain.text.invisible import escaped
from aggregator.notify.config import NoticeType
from aggregator.redaction.beginning import beginning

# Characters of a name, and of a reason; names in a list.
NAME_LENGTH: Final = 120
REASON_LENGTH: Final = 300
LISTED: Final = 10

# The type besides those of the configuration: it tests whether a receiver is reachable.
TRIAL: Final = "notice.trial"


def _new_id() -> str:
    """Return an id that no other notice has, without a full stop in it (Standard Webhooks, Signature scheme)."""
    return f"msg_{secrets.token_hex(16)}"


@dataclass(frozen=True, slots=True)
class Notice:
    """One reported event.

    `at` is its time in seconds since 1970; `text` one sentence. Receivers choose by `agent` and `server`, its subjects.
    `facts` are further details as short JSON values. `link` leads into the console.
    """

    type: NoticeType | Literal["notice.trial"]
    text: str
    agent: str | None = None
    server: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    link: str | None = None
    at: float = field(default_factory=time.time)
    id: str = field(default_factory=_new_id)


class NoticeWriter:
    """The wording of notices. `redact` takes secrets out of a text; `console` is the address of the console's pages.

    Without `console`, notices have no link.
    """

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self.console: str | None = None

    def approval_waiting(
        self, approval: str, agent: str, tool: str, server: str | None, rule: str | None, source: str | None
    ) -> Notice:
        """Return the notice that a call waits for confirmation."""
        facts = {"approval": approval, "agent": self._name(agent), "tool": self._name(tool)}
        facts |= self._optional(server=server, rule=rule, rule_source=source)
        text = f"{facts['agent']} asks: may it call {facts['tool']}?"
        return Notice("approval.waiting", text, agent, server, facts, self._link("approvals", approval))

    def server_down(self, server: str, reason: str) -> Notice:
        """Return the notice that a server is not there."""
        why = self._plain(reason, REASON_LENGTH)
        text = f"The server {server} is down" + (f": {why}" if why else ".")
        facts = {"server": server} | self._optional(reason=why or None)
        return Notice("server.down", text, None, server, facts, self._link("servers", server))

    def server_back(self, server: str, seconds: float) -> Notice:
        """Return the notice that a server announced as down is back, after so many seconds."""
        facts = {"server": server, "seconds": round(seconds)}
        text = f"The server {server} is back after {_duration(seconds)}."
        return Notice("server.back", text, None, server, facts, self._link("servers", server))

    def tools_changed(
        self, server: str, added: Sequence[str], removed: Sequence[str], changed: Sequence[str]
    ) -> Notice:
        """Return the notice that a server has other tools, by their own names."""
        kinds = {"added": added, "removed": removed, "changed": changed}
        facts: dict[str, Any] = {"server": server}
        for kind, names in kinds.items():
            if names:
                facts[kind] = [self._name(name) for name in names[:LISTED]]
                if len(names) > LISTED:
                    facts[kind].append(f"and {len(names) - LISTED} more")
        counts = ", ".join(f"{len(names)} {kind}" for kind, names in kinds.items() if names)
        text = f"The server {server} has other tools: {counts}."
        return Notice("tools.changed", text, None, server, facts, self._link("servers", server))

    def definition_held(self, server: str, names: Sequence[str], why: str) -> Notice:
        """Return the notice that definitions of a server wait for an approval; `why` applies to the first.

        Without names, all unpinned items wait, since nothing can be pinned.
        """
        shown = [self._name(name) for name in names[:LISTED]]
        if len(names) > LISTED:
            shown.append(f"and {len(names) - LISTED} more")
        facts = {"server": server, "held": shown, "reason": self._plain(why, REASON_LENGTH)}
        what = f"{shown[0]} of {server} waits" if len(names) == 1 else f"{len(names)} definitions of {server} wait"
        text = f"{what} for an approval: {facts['reason']}."
        if not names:
            text = f"What is not pinned of {server} is held: {facts['reason']}."
        return Notice("definition.held", text, None, server, facts, self._link("pins", server))

    def limit_reached(
        self, agent: str, tool: str, server: str | None, rule: str | None, source: str | None, times: int
    ) -> Notice:
        """Return the notice that an agent reached a limit, so many times."""
        facts: dict[str, Any] = {"agent": self._name(agent), "tool": self._name(tool)}
        facts |= self._optional(server=server, rule=rule, rule_source=source)
        facts["times"] = times
        often = "" if times == 1 else f" {times} times more"
        text = f"{facts['agent']} reached a limit{often} with {facts['tool']}" + (
            f" ({facts['rule_source']})." if source else "."
        )
        return Notice("limit.reached", text, agent, server, facts, self._link("agents", agent))

    def trial(self, receiver: str) -> Notice:
        """Return the notice that shows that a receiver can be reached."""
        text = f"This is a trial: notices of the aggregator reach {self._name(receiver)}."
        return Notice(TRIAL, text, facts={"receiver": self._name(receiver)}, link=self._link())

    def _optional(self, **texts: str | None) -> dict[str, str]:
        return {name: self._plain(text, REASON_LENGTH) for name, text in texts.items() if text is not None}

    def _name(self, name: str) -> str:
        return self._plain(name, NAME_LENGTH)

    def _plain(self, text: str, most: int) -> str:
        """Return a text of a peer on one line, with its invisible characters as escapes, without secrets, cut."""
        # A far longer text is cut before the search for secrets, and again after.
        shown = escaped(self._redact(text[: most * 8])).encode("utf-8", "replace").decode()
        return shown if len(shown) <= most else f"{shown[:most]}…"

    def _link(self, *parts: str) -> str | None:
        if self.console is None:
            return None
        ending = "/".join(
            quote(beginning(part, self._redact, REASON_LENGTH).encode("utf-8", "replace"), safe="") for part in parts
        )
        return f"{self.console}/{ending}"


def _duration(seconds: float) -> str:
    for size, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {word}"
    return f"{seconds:.0f} s"
