"""The timeline of one call, step by step: the request, the deciding rule, the confirmation, the servers tried.

This file decides: it uses the row of the call, and facts from elsewhere.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

Kind = Literal["ours", "theirs", "lost", "person"]
MICRO: Final = 1_000_000
# The width of the drawing, and the share of the user's time, which is not to scale.
LANE: Final = 300
PERSON: Final = 120
_LEAST: Final = 2
_NOT_ANSWERED: Final = "not answered"
_MOST: Final = 100
_NAMES: Final = {"policy": "Policy", "check": "Arguments", "confirm": "Person", "output": "Result"}


class TimedStep(NamedTuple):
    """One step as the row has it, with times in seconds."""

    name: str
    began: float
    took: float
    server: str | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class CallContext:
    """The facts about a call besides its row.

    `policy` is one sentence about the deciding rule, with its `source`; `as_now`: by the current policies, since the
    row does not tell. `person` describes the answer in the queue of approvals.
    """

    policy: str | None = None
    source: str | None = None
    as_now: bool = False
    person: str | None = None


def steps_of(row: Mapping[str, Any]) -> list[TimedStep] | None:
    """Return the steps recorded in a row; None if there are none, or none that can be read."""
    try:
        given = json.loads(row["steps"])
        steps = [
            TimedStep(str(name), float(began) / MICRO, float(took) / MICRO, *map(str, more[:2]))
            for name, began, took, *more in given[:_MOST]
        ]
    except (KeyError, ValueError, TypeError, RecursionError):
        return None
    return steps or None


def timeline(row: Mapping[str, Any], known: CallContext, *, values: bool = True) -> dict[str, Any]:
    """Return the steps of a call as data: `steps`, the aggregator's own time, and whether it includes a user's time.

    Each step has `title`, `kind`, `icon`, `took`, `note`, and the place of its bar; `took` is None if only sums are
    known. Without `values` no step has a server's text.
    """
    told = steps_of(row)
    if told is not None and not values:
        # A failure may have words of a server in it.
        told = [one._replace(failure=_NOT_ANSWERED) if one.failure is not None else one for one in told]
    steps = list(_from_steps(row, told, known) if told is not None else _drawn_from_sums(row, known))
    person = sum(step["took"] or 0.0 for step in steps if step["kind"] == "person")
    _place(steps, row["duration"] - person, bool(person))
    return {
        "steps": steps,
        "own": max(row["duration"] - row["upstream_seconds"] - person, 0.0),
        "person": person,
        "whole": told is not None,
    }


def _from_steps(row: Mapping[str, Any], told: list[TimedStep], known: CallContext) -> Iterator[dict[str, Any]]:
    yield _step("Name", "ours", None, _name(row))
    attempts = sum(one.name == "upstream" for one in told)
    attempt = 0
    asked_of_person = False
    for one in told:
        title = _NAMES.get(one.name, one.name.capitalize())
        if one.name == "upstream":
            attempt += 1
            yield _attempt(row, one, attempt, attempts)
        elif one.name == "confirm":
            asked_of_person = True
            yield _step(title, "person", one.took, _person(row, known), began=one.began, icon="person")
        else:
            note = {"policy": _policy(row, known), "check": _check(row), "output": _output(row, one)}.get(one.name, "")
            icon = "denied" if one.name == "policy" and row["status"] == "denied" else "step"
            yield _step(title, "ours", one.took, note, began=one.began, icon=icon)
    if "approved_by" in row and not asked_of_person:
        yield _step("Person", "person", None, _person(row, known), icon="person")
    yield from _ending(row, "output" in {one.name for one in told})


def _output(row: Mapping[str, Any], one: TimedStep) -> str:
    return ", ".join(said for said in (_result(row), one.server) if said)


def _drawn_from_sums(row: Mapping[str, Any], known: CallContext) -> Iterator[dict[str, Any]]:
    """Yield the steps of a plain call: the passed steps, and the server's time."""
    yield _step("Name", "ours", None, _name(row))
    if row.get("tool_name") is not None:
        yield _step("Policy", "ours", None, _policy(row, known), icon="denied" if row["status"] == "denied" else "step")
        if row["status"] != "denied" and "arguments_bytes" in row:
            yield _step("Arguments", "ours", None, _check(row))
    if row["status"] == "pending" and "approval_id" in row:
        yield _step("Person", "person", None, _person(row, known), icon="person")
    if row["upstream_seconds"]:
        server = str(row.get("answered_by") or row.get("server_id") or "server")
        lost = row["status"] in ("timeout", "unavailable")
        before = max(row["duration"] - row["upstream_seconds"], 0.0) / 2
        yield _step(
            server,
            "lost" if lost else "theirs",
            row["upstream_seconds"],
            _hop(row),
            began=before,
            icon=row["status"] if lost else "out",
        )
    yield from _ending(row, False)


def _ending(row: Mapping[str, Any], told: bool) -> Iterator[dict[str, Any]]:
    if not told and row["status"] in ("ok", "error") and "result_bytes" in row:
        yield _step("Result", "ours", None, _result(row))


def _attempt(row: Mapping[str, Any], one: TimedStep, number: int, of: int) -> dict[str, Any]:
    server = one.server or str(row.get("answered_by") or row.get("server_id") or "server")
    lost = one.failure is not None or (number == of and row["status"] in ("timeout", "unavailable"))
    notes = [one.failure] if one.failure is not None else []
    if not lost:
        if number > 1 and server != row.get("server_id"):
            notes.append(f"stands in for {row.get('server_id')}")
        notes.append(_hop(row))
    title = f"{server}, attempt {number}" if of > 1 else server
    icon = ("timeout" if row["status"] == "timeout" and number == of else "unavailable") if lost else "out"
    note = " · ".join(note for note in notes if note)
    return _step(title, "lost" if lost else "theirs", one.took, note, began=one.began, icon=icon)


def _step(
    title: str, kind: Kind, took: float | None, note: str, *, began: float = 0.0, icon: str = "step"
) -> dict[str, Any]:
    return {"title": title, "kind": kind, "took": took, "note": note, "began": began, "icon": icon}


def _place(steps: list[dict[str, Any]], whole: float, waits: bool) -> None:
    """Set the place of each step's bar; a user's has a fixed length, all others share the rest by their time."""
    people = [step for step in steps if step["kind"] == "person" and step["took"]]
    room = LANE - PERSON * bool(people and waits)
    before = 0.0
    for step in steps:
        if step["took"] is None:
            step["x"] = step["width"] = 0
        elif step["kind"] == "person":
            step["x"] = round(min(step["began"] / whole, 1.0) * room) if whole > 0 else 0
            step["width"] = PERSON // max(len(people), 1)
            before += step["took"]
        else:
            after = PERSON if before and people else 0
            at = max(step["began"] - before, 0.0)
            step["x"] = min(round(at / whole * room) if whole > 0 else 0, room - _LEAST) + after
            step["width"] = max(_LEAST, min(round(step["took"] / whole * room) if whole > 0 else 0, LANE - step["x"]))


def _name(row: Mapping[str, Any]) -> str:
    asked, tool = row["asked_name"], row.get("tool_name")
    if tool is None:
        return f"{asked} is no tool that is known"
    said = f"{asked} means {tool}" if asked != tool else str(tool)
    return f"{said}, by way of {row['via']}" if "via" in row else said


def _policy(row: Mapping[str, Any], known: CallContext) -> str:
    return known.policy or "allowed"


def _check(row: Mapping[str, Any]) -> str:
    if row["status"] == "invalid":
        return str(row.get("error_message") or "They do not fit.")
    return "fit the schema of the tool, and the rules of the policy"


def _person(row: Mapping[str, Any], known: CallContext) -> str:
    if known.person is not None:
        return known.person
    return f"{row['approved_by']} agreed" if "approved_by" in row else "was asked"


def _hop(row: Mapping[str, Any]) -> str:
    notes = [f"speaks {row['upstream_version']}"] if "upstream_version" in row else []
    if row["queued"]:
        notes.append(f"waited {row['queued'] * 1000:.1f} ms for its turn")
    return ", ".join(notes)


def _result(row: Mapping[str, Any]) -> str:
    return f"{row['result_bytes']:,} bytes as JSON" if "result_bytes" in row else ""
