"""A row of the list of calls, by what its reader may see."""

import json

import pytest

from aggregator.frontends.console.calls.rows import listed
from aggregator.frontends.console.calls.timeline import LANE, MICRO, PERSON, CallContext, timeline

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
