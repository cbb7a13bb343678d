"""Scopes that peers name."""

import pytest

from aggregator.accounts.oauth.scopes import parse_scope


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("read write read", ("read", "write")),
        ('a\\b "c" d', ("d",)),
        (None, None),
        (["read"], None),
        ("read " + "x" * 16_378 + "y write", ("read",)),
        ("a" * 300_000, ()),
    ],
    ids=["twice", "characters of none", "none", "no text", "cut in a scope", "without a blank"],
)
def test_scopes_of_a_value(value: object, found: tuple[str, ...] | None) -> None:
    """Of a very long value the beginning counts, without the scope in which the rest begins."""
    assert parse_scope(value) == found
