"""One report for all replicas, from their own reports: the worst state of each server, and the problems by replica.

This file decides: reports are its arguments, and it returns one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from aggregator.storage.records import ReplicaRecord
from aggregator.upstream.lifecycle.states import State

# States of a server, the worst first.
_STATES: Final[tuple[State, ...]] = ("unavailable", "reconnecting", "starting", "disabled", "ready", "stopped")
# What a report has where something is wrong, as a text.
_TEXTS: Final = ("keys", "issuers", "catalogs", "pins", "search", "tasks", "audit")
# What a server has beside its state where something is wrong, at whichever replica.
_OF_SERVER: Final = ("held", "withheld", "unsearchable")


class ReplicaAnswer(NamedTuple):
    """A replica with its report; None if it did not answer, for the reason `problem`."""

    replica: ReplicaRecord
    report: Mapping[str, Any] | None
    problem: str = ""


def name_of(replica: ReplicaRecord) -> str:
    """Return the display name of a replica: its number among the workers, else its slot."""
    worker = replica.facts.get("worker")
    return f"worker {worker}" if worker is not None else f"replica {replica.slot}"


def merge_reports(own: Mapping[str, Any], me: str, told: Sequence[ReplicaAnswer]) -> dict[str, Any]:
    """Return the report `own` of the replica with the id `me`, merged with the reports of all replicas."""
    found = dict(own)
    answers = [(one, one.report) for one in told if one.report is not None and one.replica.id != me]
    servers = {name: dict(server) for name, server in own.get("servers", {}).items()}
    for one, report in answers:
        for name, server in report.get("servers", {}).items():
            servers[name] = _worse(servers[name], server, name_of(one.replica)) if name in servers else dict(server)
        for key in ("config", "policies"):
            part = report.get(key, {})
            if part.get("broken") and not found.get(key, {}).get("broken"):
                problems = [f"{name_of(one.replica)}: {problem}" for problem in part.get("problems", [])]
                found[key] = {**part, "problems": problems}
        for key in _TEXTS:
            if report.get(key) and not found.get(key):
                found[key] = f"{name_of(one.replica)}: {report[key]}"
    found["servers"] = servers
    found["replicas"] = [_row(one, me) for one in told]
    return found


def _worse(one: dict[str, Any], other: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the replica's view of the server if it is worse, with the calls of both."""
    calls = one["in_flight"] + other["in_flight"]
    wrong = {key: side[key] for key in _OF_SERVER for side in (other, one) if side.get(key)}
    own = [side["own_connections"] for side in (one, other) if "own_connections" in side]
    if own:
        wrong["own_connections"] = sum(own)
    if _rank(other["state"]) < _rank(one["state"]):
        reason = f"{name}: {other['reason']}" if other["reason"] else name
        one = {**other, "reason": reason}
    elif other["state"] == one["state"] == "ready" and other["reason"] and not one["reason"]:
        one = {**other, "reason": f"{name}: {other['reason']}"}
    return {**one, **wrong, "in_flight": calls, "tools": max(one["tools"], other["tools"])}


def _rank(state: str) -> int:
    # A replica of another version may have a state that is unknown here.
    return _STATES.index(state) if state in _STATES else len(_STATES)


def _row(one: ReplicaAnswer, me: str) -> dict[str, Any]:
    replica, report = one.replica, one.report
    row = {
        "name": name_of(replica),
        "id": replica.id,
        "slot": replica.slot,
        "address": replica.address,
        "version": replica.version,
        "since": round(replica.started, 3),
        "asked": replica.id == me,
        **{key: replica.facts[key] for key in ("worker", "pid", "machine") if key in replica.facts},
    }
    if report is None:
        return {**row, "problem": one.problem}
    calls = sum(server["in_flight"] for server in report.get("servers", {}).values())
    return {**row, "ready": report.get("ready"), "sessions": report.get("sessions", {}), "in_flight": calls}
