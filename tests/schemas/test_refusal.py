"""Faults as results, and a schema as one line."""

from typing import Any

import pytest

from aggregator.schemas.check import compile_check
from aggregator.schemas.fault import Fault
from aggregator.schemas.refusal import input_refusal, output_refusal
from aggregator.schemas.signature import outline, signature
from tests.peers.toolbox import Json
from tests.schemas.shapes import SHAPES


def test_refused_arguments_say_all_that_a_model_needs() -> None:
    given = {"extensions": "al", "where": 1}
    faults = compile_check(SHAPES["weather"]).faults(given)
    result = input_refusal("amap.weather", faults, SHAPES["weather"], given)
    assert result["content"][0]["text"].splitlines() == [
        "amap.weather was not called: its arguments do not fit.",
        "Missing: city.",
        "- city: required, but missing",
        "- extensions: expected one of 'base', 'all', got a string ('al')",
        "You sent `where`; wanted `city`.",
        'Expected: city: string, extensions?: "base"|"all"',
        "Correct the arguments and call again.",
    ]
    assert result["isError"] is True
    assert result["_meta"]["aggregator/error"] == {
        "code": "invalid_arguments",
        "status": 400,
        "tool": "amap.weather",
        "missing": ["city"],
        "problems": [
            {"pointer": "/city", "expected": "required", "got": "nothing", "keyword": "required"},
            {"pointer": "/extensions", "expected": "one of 'base', 'all'", "got": "a string ('al')", "keyword": "enum"},
        ],
        "retryable": True,
    }


def test_what_is_missing_deeper_goes_by_its_pointer() -> None:
    result = input_refusal("t", [Fault("/a/b", "required", "nothing", "required")], {}, {"a": {}})
    assert result["_meta"]["aggregator/error"]["missing"] == ["/a/b"]
    assert "Expected: no named parameters." in result["content"][0]["text"]


def test_what_came_is_named_beside_what_was_wanted() -> None:
    """Of each object that lacks a member; a member that the schema knows was not meant for another."""
    schema: Json = {
        "properties": {"city": {}, "unit": {}, "by~/": {"properties": {"x": {}}, "required": ["x/y"]}},
        "required": ["city"],
    }
    cases: list[tuple[Json, list[str]]] = [
        ({"location": 1, "unit": 2}, ["You sent `location`; wanted `city`."]),
        ({"unit": 2}, ["You sent `unit`; wanted `city`."]),
        ({}, ["You sent nothing; wanted `city`."]),
        ({"city": 1, "by~/": {"z": 1}}, ["You sent `z` in by~/; wanted `x/y`."]),
        ({f"a{n}": n for n in range(9)}, ["You sent `a0`, `a1`, `a2`, `a3`, `a4`, `a5` and 3 more; wanted `city`."]),
        ({"x" * 100: 1}, [f"You sent `{'x' * 60}`; wanted `city`."]),
    ]
    for given, expected in cases:
        text = input_refusal("t", compile_check(schema).faults(given), schema, given)["content"][0]["text"]
        assert [line for line in text.splitlines() if line.startswith("You sent")] == expected


def test_a_refused_answer_keeps_what_the_tool_said() -> None:
    answer = {
        "content": [{"type": "text", "text": "done"}],
        "structuredContent": {"n": "x"},
        "_meta": {"own": 1},
        "resultType": "complete",
    }
    result = output_refusal("s.t", [Fault("/n", "an integer", "a string ('x')", "type")], answer)
    assert result["isError"] is True
    assert result["content"][1:] == answer["content"]
    assert "- n: expected an integer, got a string ('x')" in result["content"][0]["text"]
    assert "do not simply repeat it" in result["content"][0]["text"]
    assert "structuredContent" not in result
    assert result["resultType"] == "complete"
    assert result["_meta"]["own"] == 1
    error = result["_meta"]["aggregator/error"]
    assert (error["code"], error["status"], error["retryable"]) == ("invalid_output", 502, False)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("nothing", ""),
        ("weather", 'city: string, extensions?: "base"|"all"'),
        (
            "pydantic",
            'query: string, limit?: integer|null, sort?: "asc"|"desc", '
            "filters?: {field: string, value: string|number}[]|null",
        ),
        ("zod", "paths: string[], page?: integer, ratio?: number, options?: {deep?: boolean}"),
        ("edit", "id: string, cells?: (string|number|null)[][], labels?: object"),
        ("union", 'action: {kind: "move", to: integer}|{kind: "say", text: string}'),
        ("tree", "root?: {name: string, children?: {name: string, children?: object[]}[]}"),
        ("old", "size: integer, pair?: any[]"),
    ],
)
def test_a_signature(name: str, line: str) -> None:
    assert signature(SHAPES[name]) == line


def test_a_signature_is_cut_what_is_required_first() -> None:
    schema: dict[str, Any] = {"properties": {f"p{n}": {"type": "string"} for n in range(50)}, "required": ["p49", "q"]}
    line = signature(schema, 60)
    assert line.startswith("p49: string, q: any, p0?: string")
    assert len(line) == 60
    assert signature(schema).endswith("p27?: string, ...")


def test_an_outline_names_what_it_refers_to() -> None:
    assert outline({"$ref": "#/$defs/Node"}) == "Node"
    assert outline(True) == "any"
    assert len(outline({"enum": [f"{'x' * 39}{n}" for n in range(20)]})) <= 200
