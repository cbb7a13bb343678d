"""The parameters of `GET /v1/tools` and the body of `POST /v1/intent`."""

from typing import Any
from urllib.parse import quote

import pytest

from aggregator.frontends.v1.errors import BadRequest
from aggregator.frontends.v1.parse_query import read_intent, read_tools_query


def test_without_any_it_is_level_one() -> None:
    """A5, B2: the cheapest, unless something else is asked for."""
    question = read_tools_query("")
    assert (question.level, question.format, question.language, question.label) == (1, None, "en", None)
    assert read_tools_query("level=3&query=&label=").level == 3


def test_each_is_read() -> None:
    """C7: as documented."""
    question = read_tools_query(
        f"query={quote('天气 预报')}&server=w&limit=5&max_tokens=100&level=1&label={quote('工具')}"
    )
    assert (question.query, question.server, question.limit, question.max_tokens) == ("天气 预报", "w", 5, 100)
    assert question.label == "工具"
    assert read_tools_query("format=openai").format == "openai"
    assert read_tools_query("format=mcp&level=3").format == "mcp"


def test_the_short_form_has_three_levels() -> None:
    """B2: labelled lines, parameters in words, the whole schema."""
    levels = [read_tools_query(f"format=seed&level={level}") for level in (1, 2, 3)]
    assert [(one.level, one.texts, one.language) for one in levels] == [
        (1, True, "zh"),
        (2, False, "zh"),
        (3, False, "zh"),
    ]
    assert read_tools_query("format=seed").level == 2


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("querry=x", "querry"),
        ("query=a&query=b", "query"),
        ("level=4", "level"),
        ("level=one", "level"),
        ("level=", "level"),
        ("limit=0", "limit"),
        ("limit=-1", "limit"),
        ("limit=1.5", "limit"),
        ("limit=99999999999999", "limit"),
        ("max_tokens=%D9%A3", "max_tokens"),
        ("format=gemini", "format"),
        ("language=fr", "language"),
        (f"query={'x' * 3000}", "query"),
        ("message=a&query=b", "message"),
        ("message=a&server=b", "message"),
        ("format=openai&level=1", "level"),
        ("format=anthropic&level=2", "level"),
        ("level=2&label=x", "label"),
        ("&".join(f"a{n}=1" for n in range(60)), ""),
    ],
)
def test_what_is_not_as_documented_is_named(query: str, field: str) -> None:
    """C13: a parameter that is overlooked would be worse."""
    with pytest.raises(BadRequest) as caught:
        read_tools_query(query)
    assert caught.value.field == field


def test_an_intent() -> None:
    """A2: a message, and how many tools at most."""
    assert read_intent({"message": "用天气工具", "more": 1}) == ("用天气工具", 10)
    assert read_intent({"message": "x", "limit": 2}) == ("x", 2)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ([], ""),
        ({}, "message"),
        ({"message": " "}, "message"),
        ({"message": 5}, "message"),
        ({"message": "x" * 30_000}, "message"),
        ({"message": "x", "limit": 0}, "limit"),
        ({"message": "x", "limit": True}, "limit"),
        ({"message": "x", "limit": "2"}, "limit"),
    ],
)
def test_an_intent_that_is_none(body: Any, field: str) -> None:
    """C13: the field is named."""
    with pytest.raises(BadRequest) as caught:
        read_intent(body)
    assert caught.value.field == field
