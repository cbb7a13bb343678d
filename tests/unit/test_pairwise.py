"""The rows that the short lane takes of a product (tests/lanes.py)."""

from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from tests.pairwise import cover

_ROWS = st.lists(st.tuples(*[st.integers(0, 3)] * 4), max_size=60)


def pairs(rows: list[tuple[int, ...]]) -> set[tuple[tuple[int, int], ...]]:
    return {pair for row in rows for pair in combinations(enumerate(row), 2)}


@given(_ROWS)
def test_every_pair_is_still_met(rows: list[tuple[int, ...]]) -> None:
    chosen = cover(rows)
    assert pairs([rows[position] for position in chosen]) == pairs(rows)
    assert chosen == sorted(set(chosen)) == cover(rows)


def test_a_product_of_many_axes_takes_a_fraction() -> None:
    assert len(cover([*product(range(10), range(3), range(3))])) == 30
    assert len(cover([*product(range(3), repeat=6)])) < 30


def test_one_and_two_axes_are_taken_whole() -> None:
    assert cover([("a",), ("b",)]) == [0, 1]
    assert cover([*product("abc", "de")]) == list(range(6))
    assert cover([]) == []
