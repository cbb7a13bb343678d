"""The legal example over stdio: search in Chinese, attribution, output schemas, readable refusals."""

import importlib
import re
from datetime import date
from typing import Any

import pytest
from mcp import Client
from mcp.types import TextContent

from .conftest import stdio_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

jsonschema: Any = importlib.import_module("jsonschema")  # it ships no types

TOOLS = {"search_statutes", "search_cases", "get_document_template"}


async def answer(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


async def test_lists_three_read_only_tools_with_output_schemas(legal: Client) -> None:
    """Proves: C14."""
    tools = (await legal.list_tools()).tools
    assert {tool.name for tool in tools} == TOOLS
    for tool in tools:
        assert tool.output_schema is not None
        assert {"source", "updated_at"} <= set(tool.output_schema["required"])
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is True


@pytest.mark.parametrize(
    ("query", "law", "number"),
    [
        ("罚", "消费者权益保护法", 55),
        ("定金", "民法典", 586),
        ("加班", "劳动合同法", 31),
        ("违约金", "民法典", 585),
        ("竞业限制", "劳动合同法", 24),
        ("敏感个人信息", "个人信息保护法", 29),
        ("577", "民法典", 577),
        ("第五百七十七条", "民法典", 577),
        ("公司法 五年", "公司法", 47),
    ],
)
async def test_finds_the_article_first(legal: Client, query: str, law: str, number: int) -> None:
    """Proves: C14."""
    found = await answer(legal, "search_statutes", query=query)
    assert found["match"] == "exact"
    first = found["items"][0]
    assert (first["law"].removeprefix("中华人民共和国"), first["number"]) == (law, number)


@pytest.mark.parametrize("query", ["股", "租", "押", "定金", "试用"])
async def test_short_terms_are_found_as_written_and_nothing_else_is(legal: Client, query: str) -> None:
    found = await answer(legal, "search_statutes", query=query, limit=20)
    assert found["total"] == len(found["items"])
    for item in found["items"]:
        assert query in item["law"] + item["article"] + item["text"]
        assert f"【{query}" in item["snippet"]


async def test_ranks_by_relevance_best_first(legal: Client) -> None:
    found = await answer(legal, "search_statutes", query="试用期", limit=20)
    scores = [item["score"] for item in found["items"]]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > scores[-1] > 0
    assert found["items"][0]["number"] == 19


async def test_all_terms_must_occur_and_else_the_answer_says_it_is_partial(legal: Client) -> None:
    both = await answer(legal, "search_statutes", query="试用期 工资")
    assert both["match"] == "exact"
    assert [item["number"] for item in both["items"]] == [20]
    question = await answer(legal, "search_statutes", query="试用期最长可以约定多久")
    assert question["match"] == "partial"
    assert "没有条目同时包含全部关键词" in question["notice"]
    assert "没有条目同时包含全部关键词" not in both["notice"]
    assert question["items"][0]["number"] == 19


async def test_narrows_to_one_law_by_short_name(legal: Client) -> None:
    found = await answer(legal, "search_statutes", query="违约金", law="《劳动合同法》")
    assert found["law"] == "中华人民共和国劳动合同法"
    assert {item["number"] for item in found["items"]} == {23}


async def test_limit_bounds_the_items_and_not_the_total(legal: Client) -> None:
    found = await answer(legal, "search_statutes", query="应当", limit=2)
    assert len(found["items"]) == 2
    assert found["total"] > 2


async def test_finds_latin_words_whatever_their_case_and_width(legal: Client) -> None:
    for query in ("api", "API", "ＡＰＩ"):
        found = await answer(legal, "search_cases", query=query)
        assert [item["id"] for item in found["items"]] == ["SAMPLE-03"]


async def test_cases_say_everywhere_that_they_are_made_up(legal: Client) -> None:
    """Proves: C14."""
    found = await answer(legal, "search_cases", query="公司", limit=20)
    assert found["items"]
    for part in (found, *found["items"]):
        assert part["sample"] is True
        assert "虚构" in part["source"]
    assert {item["cause"] for item in (await answer(legal, "search_cases", query="公司", cause="劳动"))["items"]} == {
        "劳动争议"
    }


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search_statutes", {"query": "违约"}),
        ("search_statutes", {"query": "饕餮"}),
        ("search_cases", {"query": "押金"}),
        ("search_cases", {"query": "饕餮"}),
        ("get_document_template", {"template": "借条"}),
    ],
)
async def test_every_answer_is_attributed_and_fits_its_output_schema(
    legal: Client, tool: str, arguments: dict[str, Any]
) -> None:
    """Proves: C14."""
    found = await answer(legal, tool, **arguments)
    for part in (found, *found.get("items", [])):
        assert part["source"]
        assert date.fromisoformat(part["updated_at"]) <= date(2026, 11, 21)
    [schema] = [entry.output_schema for entry in (await legal.list_tools()).tools if entry.name == tool]
    assert schema is not None
    jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker()).validate(found)


async def test_nothing_found_is_an_answer_with_advice(legal: Client) -> None:
    found = await answer(legal, "search_statutes", query="饕餮")
    assert (found["total"], found["items"]) == (0, [])
    assert "没有命中" in found["notice"]


async def test_templates_are_fetched_by_id_or_title_with_their_placeholders(legal: Client) -> None:
    """Proves: C14."""
    by_id = await answer(legal, "get_document_template", template="IOU")
    assert by_id == await answer(legal, "get_document_template", template=" 借条 ")
    for other in [by_id["id"], *(entry["id"] for entry in by_id["others"])]:
        template = await answer(legal, "get_document_template", template=other)
        names = [placeholder["name"] for placeholder in template["placeholders"]]
        assert names
        assert set(names) == set(re.findall(r"{{(\w+)}}", template["body"]))
        assert all(placeholder["meaning"] and placeholder["example"] for placeholder in template["placeholders"])
    assert len(by_id["others"]) == 7


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("search_statutes", {"query": "  "}, ["query", "违约金"]),
        ("search_statutes", {"query": "「」—"}, ["query", "违约金"]),
        ("search_statutes", {"query": "长" * 201}, ["201", "200"]),
        ("search_cases", {"query": "押金", "limit": 0}, ["limit", "1 到 20"]),
        ("search_statutes", {"query": "押金", "limit": 21}, ["limit", "1 到 20"]),
        ("search_statutes", {"query": "押金", "law": "民发典"}, ["民发典", "是否指：中华人民共和国民法典"]),
        ("search_cases", {"query": "押金", "cause": "离婚"}, ["cause", "劳动争议", "竞业限制"]),
        ("get_document_template", {"template": "合同"}, ["labor-contract", "lease-contract", "是否指"]),
        ("get_document_template", {"template": "借款条"}, ["是否指：iou"]),
        ("get_document_template", {"template": ""}, ["template", "iou／借条"]),
        ("search_statutes", {}, ["query"]),
    ],
)
async def test_bad_arguments_are_refused_with_what_to_send_instead(
    legal: Client, tool: str, arguments: dict[str, Any], says: list[str]
) -> None:
    text = await refusal(legal, tool, **arguments)
    for words in says:
        assert words in text


@pytest.mark.parametrize("query", ['"', '违约" OR "定金', "title:违约", "NEAR(违约 定金)", "违约*", "a' --"])
async def test_query_syntax_has_no_power(legal: Client, query: str) -> None:
    result = await legal.call_tool("search_statutes", {"query": query})
    assert result.structured_content is not None or result.is_error
    assert "syntax" not in str(result.content)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_both_protocol_eras_are_served(mode: str) -> None:
    async with Client(stdio_server("examples.legal"), mode=mode) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
