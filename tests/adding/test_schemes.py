"""Addresses with a scheme that no server has."""

import pytest

from aggregator.cli.servers.adding.request import read_words
from aggregator.domain.errors import OperatorError


@pytest.mark.parametrize(
    ("word", "meant"),
    [("htp://mcp.example.com/mcp?key=canary", "http://mcp.example.com/mcp?"), ("htps://a/mcp", "https://a/mcp?")],
)
def test_a_mistyped_scheme_is_no_program(word: str, meant: str) -> None:
    """F8: it is named, with what may be meant, and without what may be a secret."""
    with pytest.raises(OperatorError, match="cannot begin a server's address") as refused:
        read_words(["docs", word], None)
    assert f"Did you mean {meant}" in str(refused.value)
    assert "canary" not in str(refused.value)


def test_what_is_an_address_or_a_program_stays() -> None:
    assert read_words(["docs", "HTTPS://a/mcp"], None) == ("docs", (), "HTTPS://a/mcp")
    assert read_words(["docs", "uvx", "git+https://a"], None) == ("docs", ("uvx", "git+https://a"), None)
