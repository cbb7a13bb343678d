"""A row of the list of calls, by what its reader may see."""

import json

import pytest

from aggregator.frontends.console.calls.rows import listed
from aggregator.frontends.console.calls.timeline import LANE, MICRO, PERSON, CallContext, timeline
from aggregator.frontends.console.foreign_words import event_details

ROW = {
    "status": "error",
    "asked_name": "shop__get",
    "tool_name": "shop.get",
    "duration": 0.1,
    "error_code": "tool_error",
    "error_message": "words of the server",
    "arguments_digest": "a" * 64,
    "result_digest": "b" * 64,
    "digest": "c" * 64,
    "previous": "d" * 64,
}


# The icons of the bars of servers.
_OF_SERVERS = frozenset({"out", "timeout", "unavailable"})


@pytest.mark.parametrize("values", [True, False])
def test_digests_are_for_those_who_may_see_values(values: bool) -> None:
    """E10: those of the chain for no reader: the list does not prove anything."""
    data = listed(ROW, values=values)
    assert not data.keys() & {"digest", "previous"}
    assert ({"arguments_digest", "result_digest"} <= data.keys()) == values
    assert ({"arguments_digest", "result_digest"} & data.keys() == set()) != values
    assert ("words of the server" in str(data)) == values
    assert data["name"] == "shop.get"


def test_a_name_that_is_no_tool_is_shown_as_it_was_asked() -> None:
    row = {name: value for name, value in ROW.items() if name != "tool_name"}
    assert listed(row, values=False)["name"] == "shop__get"


@pytest.mark.parametrize("people", [0, 1, 2])
def test_the_bar_of_a_person_has_a_fixed_length_and_the_rest_share_the_lane(people: int) -> None:
    """E10: however long the person took."""
    asked = [["confirm", 1_000 + at * 3_600 * MICRO, 3_600 * MICRO] for at in range(people)]
    after = 1_000 + people * 3_600 * MICRO
    steps = [["policy", 0, 1_000], *asked, ["upstream", after, MICRO, "shop"]]
    duration = people * 3_600.0 + 1.001
    row = {
        **ROW,
        "duration": duration,
        "upstream_seconds": 1.0,
        "queued": 0.0,
        "status": "ok",
        "steps": json.dumps(steps),
    }
    bars = timeline(row, CallContext())["steps"]
    widths = {kind: [bar["width"] for bar in bars if bar["kind"] == kind] for kind in ("person", "theirs")}
    assert widths["person"] == [PERSON // max(people, 1)] * people
    (upstream,) = [bar for bar in bars if bar["kind"] == "theirs"]
    room = LANE - PERSON * bool(people)
    assert upstream["width"] == pytest.approx(room, abs=2)
    assert upstream["x"] + upstream["width"] <= LANE


@pytest.mark.parametrize(
    ("status", "failures", "bars"),
    [
        ("ok", [None], [("shop", "theirs", "out")]),
        ("error", [None], [("shop", "theirs", "out")]),
        ("timeout", [None], [("shop", "lost", "timeout")]),
        ("unavailable", [None], [("shop", "lost", "unavailable")]),
        ("ok", ["gone", None], [("shop, attempt 1", "lost", "unavailable"), ("shop, attempt 2", "theirs", "out")]),
        ("error", ["gone", "late"], [("shop, attempt 1", "lost", "unavailable"),
                                     ("shop, attempt 2", "lost", "unavailable")]),
        ("timeout", [None, None], [("shop, attempt 1", "theirs", "out"), ("shop, attempt 2", "lost", "timeout")]),
    ],
)  # fmt: skip
def test_an_attempt_without_an_answer_is_drawn_as_lost(
    status: str, failures: list[str | None], bars: list[tuple[str, str, str]]
) -> None:
    """E10: by its own failure, and the last attempt by the status of the call; with the steps or the sums alone."""
    row = {**ROW, "server_id": "shop", "status": status, "duration": 2.0, "upstream_seconds": 1.5, "queued": 0.0}
    steps = [["upstream", 0, MICRO, "shop", *([failure] if failure is not None else [])] for failure in failures]
    rows = [{**row, "steps": json.dumps(steps)}, *([row] if len(failures) == 1 else [])]
    for one in rows:
        drawn = timeline(one, CallContext())["steps"]
        assert [(bar["title"], bar["kind"], bar["icon"]) for bar in drawn if bar["icon"] in _OF_SERVERS] == bars


def test_a_viewer_reads_our_own_details_of_an_event() -> None:
    """E10: of the kinds whose texts may have words of others, and of the others all but a digest of arguments."""
    ours = {name: "x" for name in ("from", "to", "action", "approval", "tool", "answer", "by")}
    given = {**ours, "reason": "words of the server", "arguments_digest": "a" * 64}
    for kind in ("account", "login_refused", "approval", "upstream_state", "call_ended_late"):
        assert event_details(kind, given, values=False) == ours
        assert event_details(kind, given, values=True) == given
    assert event_details("pins", given, values=False) == {**ours, "reason": "words of the server"}
