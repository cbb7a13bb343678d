"""The page on the aggregator itself: version, problems, queues, keys, receivers of notices, and who is signed in."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aggregator import __version__
from aggregator.frontends.console.pages.conditions import problems_of
from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.view import ConsoleRequest, NotThere, PageRoute, PageView, Redirect
from aggregator.storage.audit.chain import GENESIS, Head
from aggregator.storage.audit.events import find_events
from aggregator.storage.audit.read import AuditReader
from aggregator.storage.errors import NoSuchRow
from aggregator.storage.opening import Database
from aggregator.storage.records import KeyRecord
from aggregator.telemetry.snapshot import Snapshot

# Rows of a list that are shown.
_MOST: Final = 100
_NAME: Final = 200
_GAPS: Final = 5
# A viewer reads this in place of a receiver's answer.
_FAILED: Final = "it cannot be told; what it answers is shown to approvers"
_GAP_KINDS: Final = ("log_gap", "log_mended")
# Nothing is missing then: a database that opens or answers slowly gets its rows from a file.
_LATE_KINDS: Final = ("log_recovered",)
_SESSION_ID: Final = 64

_SCHEMA: Final = {
    "type": "object",
    "required": ["version", "ready", "problems", "audit", "keys", "sessions"],
    "properties": {
        "version": {"type": "string"},
        "ready": {"type": "boolean"},
        "problems": {"type": "array", "description": "what is wrong: `area` and `text`"},
        "wait_for_restart": {"type": "array", "description": "settings of the file that wait for the next start"},
        "policies": {"type": "object", "description": "`revision` in force"},
        "audit": {"type": "object", "description": "`seq` and `digest` of the newest row, waiting, lost, gaps, late"},
        "queues": {"type": "array"},
        "limits": {"type": "array"},
        "keys": {"type": "array", "description": "API keys without their secrets"},
        "receivers": {"type": "array", "description": "who is sent notices, and how that goes"},
        "sessions": {"type": "array", "description": "people who are signed in at the console"},
    },
}


class HealthPage:
    """The condition of the aggregator itself."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> Sequence[PageRoute]:
        """Return the ways to it."""
        said = "The aggregator itself: version, problems, queues, keys, receivers, sessions"
        return [
            PageRoute("GET", "/health", "viewer", self.show, said, schema=_SCHEMA),
            PageRoute(
                "POST", "/health/sessions/{id}/revoke", "operator", self.revoke, "Sign a person out of the console"
            ),
        ]

    async def show(self, request: ConsoleRequest) -> PageView:
        """Return the page."""
        parts, now, values = self._parts, time.time(), request.person.may("approver")
        ready, details = parts.report()
        config: Mapping[str, Any] = details.get("config") or {}
        policies: Mapping[str, Any] = details.get("policies") or {}
        snapshot = parts.snapshot()
        database = await parts.opened()
        heads = await AuditReader(database.engine).heads()
        head = max(heads.values(), default=Head(0, GENESIS))
        gaps = await _events(database, _GAP_KINDS)
        late = await _events(database, _LATE_KINDS)
        keyring = parts.access.keyring
        keys = sorted(keyring.records(), key=lambda key: _rank(key, now))
        sessions = await database.console.all(now=now)
        data = {
            "version": __version__,
            "ready": ready,
            "stopping": bool(details.get("stopping")),
            "problems": problems_of(details, values=values),
            "config_file": config.get("file"),
            "wait_for_restart": list(config.get("wait_for_restart", ())),
            "policies": {"revision": policies.get("revision"), "broken": bool(policies.get("broken"))},
            "keyless": parts.access.keyless_text(),
            "audit": {
                "seq": head.seq,
                "digest": head.digest,
                "chains": len(heads),
                "enabled": parts.config().audit.enabled,
                "waiting": snapshot.queues.get("audit", 0),
                "lost": snapshot.lost.get("audit", 0),
                "gaps": gaps,
                "late": late,
            },
            "queues": _queues(snapshot),
            "limits": self._limits(snapshot),
            "keys": [_key(key, now, keyring.is_written(key.key_id)) for key in keys[:_MOST]],
            "keys_total": len(keys),
            "receivers": [
                {"name": name, **report, **({} if values or report["problem"] is None else {"problem": _FAILED})}
                for name, report in list((details.get("notify") or {}).items())[:_MOST]
            ],
            "sessions": [
                {
                    "id": one.id,
                    "person": one.person[:_NAME],
                    "role": one.role,
                    "key_id": one.key_id,
                    "created": one.created,
                    "last_seen": one.last_seen,
                    "expires": one.expires,
                    "own": one.id == request.person.session,
                }
                for one in sessions[:_MOST]
            ],
            "sessions_total": len(sessions),
            "may_revoke": request.person.may("operator"),
        }
        return PageView("health.html", "Health", data)

    async def revoke(self, request: ConsoleRequest) -> Redirect:
        """End a session, and show the page again."""
        id, now = request.path["id"][:_SESSION_ID], time.time()
        console = (await self._parts.opened()).console
        found = next((one for one in await console.all(now=now) if one.id == id), None)
        if found is None:
            raise NotThere(f"There is no session {id!r}: it has ended.")
        try:
            await console.end(id)
        except NoSuchRow as gone:
            raise NotThere(f"There is no session {id!r}: it has ended.") from gone
        self._parts.record(
            "console",
            f"{request.person.name} signed {found.person} out of the console.",
            details={"action": "revoke", "by": request.person.name, "person": found.person, "session": id},
        )
        return Redirect("/health")

    def _limits(self, snapshot: Snapshot) -> list[dict[str, Any]]:
        http = self._parts.config().http
        most = {"sessions": http.max_sessions, "streams": http.max_streams, "pending": http.max_pending}
        known = [
            {"name": name, "open": count, "most": most.get(name), "refused": snapshot.refused.get(name, 0)}
            for name, count in snapshot.open.items()
        ]
        others = [
            {"name": name, "open": None, "most": None, "refused": count}
            for name, count in snapshot.refused.items()
            if name not in snapshot.open
        ]
        return [*known, *others[:_MOST]]


async def _events(database: Database, kinds: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the newest events of these kinds, the newest first."""
    found = (await find_events(database.engine, kinds, None, _GAPS)).rows
    return [{"seq": one.seq, "at": one.at, "summary": one.summary[:_NAME]} for one in found]


def _queues(snapshot: Snapshot) -> list[dict[str, Any]]:
    found = [
        {"name": name, "waiting": count, "lost": snapshot.lost.get(name, 0)} for name, count in snapshot.queues.items()
    ]
    if snapshot.spans is not None:
        found.append({"name": "spans", "waiting": snapshot.spans.waiting, "lost": snapshot.spans.dropped})
    waiting = sum(counts.waiting for counts in snapshot.receivers.values())
    dropped = sum(counts.dropped for counts in snapshot.receivers.values())
    if snapshot.receivers:
        found.append({"name": "notices", "waiting": waiting, "lost": dropped})
    return found


def _rank(key: KeyRecord, now: float) -> tuple[bool, str, str]:
    return _state(key, now) != "good", key.agent_id, key.key_id


def _state(key: KeyRecord, now: float) -> str:
    if key.revoked is not None:
        return "revoked"
    return "expired" if key.expires is not None and key.expires <= now else "good"


def _key(key: KeyRecord, now: float, in_file: bool) -> dict[str, Any]:
    return {
        "id": key.key_id[:_NAME],
        "agent": key.agent_id[:_NAME],
        "label": key.label[:_NAME],
        "role": key.console_role,
        "state": _state(key, now),
        "expires": key.expires,
        "last_used": key.last_used,
        "in_file": in_file,
    }
