"""Challenges of servers are read, however they are written; those of the aggregator can be read by others."""

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.client.auth import utils as oracle

from aggregator.accounts.oauth.challenges import Challenge, bearer, bearer_challenge, parse


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["Bearer"], [("bearer", {})]),
        (['Bearer realm="x"'], [("bearer", {"realm": "x"})]),
        (['bearer REALM = "x" ,scope="a b"'], [("bearer", {"realm": "x", "scope": "a b"})]),
        (['Basic realm="a, b", Bearer scope="c"'], [("basic", {"realm": "a, b"}), ("bearer", {"scope": "c"})]),
        (["Negotiate", "Bearer scope=c"], [("negotiate", {}), ("bearer", {"scope": "c"})]),
        (["Negotiate YII=, Bearer scope=c"], [("negotiate", {}), ("bearer", {"scope": "c"})]),
        (['Bearer realm="a \\"b\\" c"'], [("bearer", {"realm": 'a "b" c'})]),
        (['Bearer scope="a", scope="b"'], [("bearer", {"scope": "a"})]),
        (['Bearer realm="open, scope="x"'], [("bearer", {"realm": "open, scope="})]),
        ([", ,Bearer a=b,,c=d,"], [("bearer", {"a": "b", "c": "d"})]),
        (
            ['DPoP algs="ES256", Bearer error="invalid_token"'],
            [("dpop", {"algs": "ES256"}), ("bearer", {"error": "invalid_token"})],
        ),
        ([""], []),
        (['="x", Bearer a=b'], [("bearer", {"a": "b"})]),
    ],
)
def test_challenges_are_read(values: list[str], expected: list[tuple[str, dict[str, str]]]) -> None:
    assert [(found.scheme, dict(found.params)) for found in parse(values)] == expected


def test_the_bearer_challenge_with_metadata_counts() -> None:
    found = bearer(
        ['Bearer realm="a"', 'Basic realm="b"', 'Bearer resource_metadata="https://x.example/y", scope="s t"']
    )
    assert found is not None
    assert found.params["resource_metadata"] == "https://x.example/y"
    assert found.scopes == ("s", "t")
    assert bearer(["Basic realm=x"]) is None
    assert Challenge("bearer", {}).scopes is None


@given(st.lists(st.text(max_size=200), max_size=4))
def test_any_text_is_read_to_its_end(values: list[str]) -> None:
    assert len(parse(values)) <= 20


@pytest.mark.parametrize("piece", ["Bearer ", "a=b,", '"', "\\", 'x="', "=", ",", " ", "Bearer a=", "Negotiate YII=="])
def test_long_values_cost_little(piece: str) -> None:
    parse([piece * 100_000] * 4)


_PRINTABLE = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30)


@given(_PRINTABLE, _PRINTABLE)
def test_what_is_written_is_read_back(realm: str, description: str) -> None:
    value = bearer_challenge(realm, "https://a.example/x", ("a", "b:c"), "invalid_token", description)
    (found,) = parse([value])
    assert found.params["resource_metadata"] == "https://a.example/x"
    assert found.scopes == ("a", "b:c")
    assert set(found.params) == {"realm", "error", "error_description", "resource_metadata", "scope"}
    response = httpx2.Response(401, headers={"www-authenticate": value})
    assert oracle.extract_resource_metadata_from_www_auth(response) == "https://a.example/x"


def test_nothing_breaks_out_of_a_challenge() -> None:
    value = bearer_challenge('a"\r\nSet-Cookie: x=y, Basic realm="', None, ())
    assert "\r" not in value
    assert "\n" not in value
    assert [found.scheme for found in parse([value])] == ["bearer"]
