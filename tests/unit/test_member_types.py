"""Members of definitions with other types than the schema of the protocol: no host is listed one."""

import copy
from itertools import product
from typing import Any

import mcp.types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from aggregator.catalog.items import items
from aggregator.catalog.member_types import Kind
from aggregator.catalog.validate import validate_tools
from aggregator.domain.names import DEFAULT_NAME_LIMIT

from .strategies import json_values, server, tool

MODELS: dict[Kind, type[BaseModel]] = {
    "tool": mcp.types.Tool,
    "prompt": mcp.types.Prompt,
    "resource": mcp.types.Resource,
    "template": mcp.types.ResourceTemplate,
}
PLAIN: dict[Kind, dict[str, Any]] = {
    "tool": tool("x"),
    "prompt": {"name": "x"},
    "resource": {"name": "x", "uri": "file:///x"},
    "template": {"name": "x", "uriTemplate": "file:///{x}"},
}
ICON = {"src": "https://a/b.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}
EVERY = {"title": "T", "description": "D", "icons": [ICON], "_meta": {"a": [1]}, "vendor": {"x": None}}
CONTENT = {
    **EVERY,
    "mimeType": "text/plain",
    "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z", "x": 1},
}
FULL: dict[Kind, dict[str, Any]] = {
    "tool": {
        **PLAIN["tool"],
        **EVERY,
        "annotations": {"title": "A", "readOnlyHint": True, "destructiveHint": False, "x": {}},
        "execution": {"taskSupport": "optional"},
        "outputSchema": {"type": "object"},
    },
    "prompt": {
        **PLAIN["prompt"],
        **EVERY,
        "arguments": [{"name": "a", "title": "A", "description": "d", "required": True, "x": 1}],
    },
    "resource": {**PLAIN["resource"], **CONTENT, "size": 7},
    "template": {**PLAIN["template"], **CONTENT},
}


def listed(kind: Kind, definitions: list[Any]) -> tuple[list[Any], list[str]]:
    """Return the definitions that are shown, and the warnings."""
    if kind == "tool":
        tools, warnings = validate_tools(server(), definitions, ambiguous=False, name_limit=DEFAULT_NAME_LIMIT)
        return [record.definition for record in tools], warnings
    found, warnings = items(server(), kind, definitions, ambiguous=False, name_limit=DEFAULT_NAME_LIMIT)
    return [record.definition for record in found], warnings


@pytest.mark.parametrize("kind", MODELS)
def test_a_definition_with_the_right_types_is_the_same_object(kind: Kind) -> None:
    assert MODELS[kind].model_validate(FULL[kind])
    shown, warnings = listed(kind, [FULL[kind]])
    assert shown[0] is FULL[kind]
    assert not warnings


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all members that the schema of the protocol knows."""
    found: list[tuple[Any, ...]] = []
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if key in ("x", "vendor", "_meta", "inputSchema", "outputSchema", "uri", "uriTemplate"):
            continue
        found += [(*path, key), *places(inner, (*path, key))]
    return [*found, ("_meta",)] if not path else found


WRONG = (None, 7, 1.5, "no such", [7], {"x": 7}, [None], True)


@pytest.mark.parametrize("kind", MODELS)
def test_one_wrong_member_costs_no_host_its_list(kind: Kind) -> None:
    """One bad item costs itself only: hosts whose library checks types would refuse the whole list."""
    failed: list[Exception] = []
    for path, wrong in product(places(FULL[kind]), WRONG):
        try:
            check_wrong_member(kind, path, wrong)
        except Exception as error:
            error.add_note(f"{path} is {wrong!r}")
            failed.append(error)
    if failed:
        raise ExceptionGroup("some members cost a host its list", failed)


def check_wrong_member(kind: Kind, path: tuple[Any, ...], wrong: Any) -> None:
    """Hold that a list with one definition whose member at `path` is wrong is shown, mended."""
    definition = copy.deepcopy(FULL[kind])
    holder = definition
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = wrong
    given_to_us = copy.deepcopy(definition)
    shown, warnings = listed(
        kind, [definition, PLAIN[kind] | {"uri": "file:///y", "uriTemplate": "file:///y{x}", "name": "y"}]
    )
    assert definition == given_to_us, "the server's own object was changed"
    for one in shown:
        MODELS[kind].model_validate(one, strict=False)
    assert shown[-1]["name"] == "y"
    if path == ("name",) and kind in ("tool", "prompt") and not isinstance(wrong, str):
        assert len(shown) == 1
        return
    assert len(shown) == 2
    assert shown[0].get("vendor") == {"x": None}, "what the schema does not know stays"
    if shown[0] != definition and wrong is not None:
        assert any("mended" in one for one in warnings), warnings


def test_what_is_null_is_taken_out_without_a_word() -> None:
    """Libraries that check types take null for no text."""
    for kind, definition in FULL.items():
        empty = {
            name: None if name in (*EVERY, "mimeType", "size", "outputSchema") else value
            for name, value in definition.items()
        }
        shown, warnings = listed(kind, [empty | {"vendor": None}])
        assert None not in {name: value for name, value in shown[0].items() if name != "vendor"}.values()
        assert "vendor" in shown[0]
        assert not warnings


@given(
    st.lists(
        st.dictionaries(st.sampled_from(sorted(FULL["tool"] | FULL["prompt"] | FULL["resource"])), json_values()),
        max_size=3,
    )
)
def test_any_members_at_all(definitions: list[dict[str, Any]]) -> None:
    for kind, model in MODELS.items():
        shown, _ = listed(
            kind,
            [
                PLAIN[kind] | {name: v for name, v in one.items() if name not in ("name", "uri")}
                for one in definitions[:1]
            ],
        )
        for one in shown:
            model.model_validate(one)


def test_a_resource_without_a_name_is_shown_by_its_address() -> None:
    shown, warnings = listed("resource", [{"uri": "file:///x"}, {"uri": "file:///y", "name": ["y"]}])
    assert [one["name"] for one in shown] == ["file:///x", "file:///y"]
    assert len(warnings) == 1


def test_a_property_that_is_true_or_false_is_an_object() -> None:
    """Libraries in TypeScript want an object for each property; deeper ones stay."""
    schema = {"type": "object", "properties": {"a": True, "b": False, "c": {"properties": {"d": True}}}}
    shown, warnings = listed("tool", [tool("x", inputSchema=schema, outputSchema=schema)])
    for member in ("inputSchema", "outputSchema"):
        assert shown[0][member]["properties"] == {"a": {}, "b": {"not": {}}, "c": {"properties": {"d": True}}}
    assert "true or false" in warnings[0]
