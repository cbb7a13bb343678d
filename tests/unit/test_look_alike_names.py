"""Names of arguments that a server may take for one that a rule tightens."""

import pytest

from aggregator.schemas.look_alikes import look_alikes
from tests.peers.toolbox import Json

RULE: Json = {"properties": {"limit": {}, "max_items": {}, "filter": {}}}


@pytest.mark.parametrize(
    "name",
    [
        "Limit",
        "LIMİT",
        "maxItems",
        "max-items",
        "limit ",
        " limit",
        "\tlimit",
        "lim it",
        "lim\xa0it",
        "lim\u200bit",
        "limi\x00t",
        "limit\x7f",
        "ｌｉｍｉｔ",
        "ﬁlter",
        "𝐥imit",
        "\ufefflimit",
    ],
    ids=ascii,
)
@pytest.mark.parametrize("nested", [False, True])
def test_a_name_that_reads_as_a_ruled_one_is_a_fault(name: str, nested: bool) -> None:
    """D5: unless the tool has an argument of that very name."""
    given = {"deep": [{name: 1}]} if nested else {name: 1}
    assert len(look_alikes([RULE], {}, given) or ()) == 1
    assert look_alikes([RULE], {"properties": {name: {}}}, given) == ()


@pytest.mark.parametrize("name", ["limit", "other", "limits", "l\u0131mit2", "", "\u200b"], ids=ascii)
def test_other_names_are_none(name: str) -> None:
    assert look_alikes([RULE], {}, {name: 1}) == ()


@pytest.mark.parametrize("given", [{"Limit": 1, "other": [1, 2]}, {"other": [{"Limit": 1}, 2]}])
def test_a_bounded_look_finds_as_much_as_an_unbounded_one_or_gives_up(given: Json) -> None:
    """Four values, in whatever depth."""
    assert len(look_alikes([RULE], {}, given, 4) or ()) == 1
    assert look_alikes([RULE], {}, given, 3) is None
