"""The estimate against what cl100k counted once for texts of our own."""

import pytest

from aggregator.domain.text.tokens import estimate

COUNTED = [
    ("Create a new branch in a repository and return its name", 11),
    ("查询指定城市的天气信息", 10),
    (
        '{"name":"weather.get","description":"Reads the weather","parameters":{"city":"string* City"}}',
        21,
    ),
    ("maps_direction_driving getUserByID listPullRequestReviewComments", 11),
    ("1234567890 and 3.14159, or 2026-01-31T12:00:00Z", 26),
    ("https://example.org/path/to/resource?query=value&page=2", 13),
    ("def f(x):\n    return [y for y in x if y is not None]\n", 18),
]


@pytest.mark.parametrize(("text", "tokens"), COUNTED, ids=range(len(COUNTED)))
def test_near_what_a_tokenizer_counts(text: str, tokens: int) -> None:
    assert abs(estimate(text) - tokens) <= 2 + tokens // 10
