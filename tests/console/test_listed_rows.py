"""A row of the list of calls, by what its reader may see."""

import pytest

from aggregator.frontends.console.calls.rows import listed

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
