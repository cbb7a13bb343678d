"""The headers of 2026-07-28, held against the SDK's own `mcp.shared.inbound` as the oracle.

On purpose different: header names come out in lower case, as they travel; duplicates are seen in lists of values
instead of a mapping that folds them; what the SDK cannot render (integers of over 4,300 digits) no peer can send here.
"""

from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from mcp.shared.inbound import (
    NAME_BEARING_METHODS,
    decode_header_value,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    validate_mcp_param_headers,
    x_mcp_header_map,
)

from aggregator.wire import headers
from aggregator.wire.headers import (
    NAMED_BY,
    PARAM_PREFIX,
    ParamHeader,
    decode_value,
    encode_value,
    mirror,
    mismatch,
    param_headers,
)

from .strategies import CLEAN_TEXT, json_values

KEYS = st.sampled_from(["a", "b", "c.d", "x-mcp-header", "properties", "type", "é"])
TOKENS = st.sampled_from(["Region", "region", "X-Y", "a b", "", "é", "T!#$%&'*+-.^_`|~9"]) | json_values(leaves=2)
TYPES = st.sampled_from(["string", "integer", "boolean", "number", "object", "array", ["string"], None])
NOT_PROPERTIES = st.sampled_from(
    ["items", "not", "if", "additionalProperties", "contentSchema", "default", "const", "enum", "examples", "$ref"]
)
LEAF = st.fixed_dictionaries({}, optional={"type": TYPES, "x-mcp-header": TOKENS})


def _schema_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, max_size=3)
    named = st.dictionaries(KEYS, inner, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES,
            "properties": named | inner,
            "x-mcp-header": TOKENS,
            "allOf": some | inner,
            "prefixItems": some,
            "$defs": named,
            "patternProperties": named,
            "dependentSchemas": named | some,
        },
    ) | st.dictionaries(NOT_PROPERTIES, inner, max_size=2)


SCHEMAS = st.recursive(LEAF, _schema_of, max_leaves=8) | json_values(leaves=4)
# Sound ones, so that annotations meet arguments often.
SOUND = st.dictionaries(
    st.sampled_from(["a", "b", "c"]),
    st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "boolean"])})
    | st.fixed_dictionaries({"type": st.just("object"), "properties": st.just({"n": {"type": "string"}})}),
    min_size=1,
)
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-100, 100)
    | st.integers(-(10**25), 10**25)
    | st.floats()
    | CLEAN_TEXT
    | st.sampled_from(["42", "42.0", "true", " x", "x ", "=?base64?eA==?=", "=?base64?", "", "地"])
    | st.dictionaries(st.just("n"), CLEAN_TEXT)
    | st.lists(st.integers(), max_size=1)
)
ARGUMENTS = st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES)


def _annotated(properties: dict[str, Any]) -> dict[str, Any]:
    marked = {}
    for number, (name, schema) in enumerate(sorted(properties.items())):
        if "properties" in schema:
            inner = {"n": {"type": "string", "x-mcp-header": f"Inner-{number}"}}
            marked[name] = {**schema, "properties": inner}
        else:
            marked[name] = {**schema, "x-mcp-header": f"Head-{number}"}
    return {"type": "object", "properties": marked}


def _in_lower_case(mirrored: dict[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in mirrored.items()}


@given(st.text() | st.text(" =?base64x\t\n~\x7f", max_size=20))
@example("=?base64?eA==?=")
@example("=?base64??=")
@example("=?base64?\n?=")
@example(" edge ")
def test_a_value_travels_as_the_sdk_sends_it(value: str) -> None:
    assume(not any("\ud800" <= char <= "\udfff" for char in value))
    sent = encode_value(value)
    assert sent == encode_header_value(value)
    assert decode_value(sent) == value
    assert sent.isascii()
    assert sent == sent.strip()


@given(st.text(" =?base64eA/+\n~", max_size=24) | CLEAN_TEXT.map("=?base64?{}?=".format))
@example("=?base64?eB==?=")
@example("=?base64?/w==?=")
@example("=?base64?é?=")
@example("=?BASE64?eA==?=")
def test_a_header_is_read_as_the_sdk_reads_it(value: str) -> None:
    assert decode_value(value) == _sdk_decoded(value)


def _sdk_decoded(value: str) -> str | None:
    try:
        return decode_header_value(value)
    except ValueError:
        # The SDK lets b64decode's complaint about non-ASCII payloads escape: a malformed wrapper all the same.
        return None


@given(SCHEMAS | SOUND.map(lambda properties: _annotated(properties)))
@example({"properties": {"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}}})
@example({"x-mcp-header": "A", "type": "string"})
def test_annotations_are_found_and_refused_as_the_sdk_does(schema: Any) -> None:
    problem = find_invalid_x_mcp_header(schema)
    if problem is not None:
        with pytest.raises(ValueError, match="x-mcp-header"):
            param_headers(schema)
    else:
        expected = {path: PARAM_PREFIX + token.lower() for path, token in x_mcp_header_map(schema).items()}
        assert {path: header.name for path, header in param_headers(schema).items()} == expected


@given(SOUND, ARGUMENTS)
def test_arguments_are_mirrored_as_the_sdk_mirrors_them(properties: dict[str, Any], arguments: dict[str, Any]) -> None:
    schema = _annotated(properties)
    theirs = _in_lower_case(mcp_param_headers(x_mcp_header_map(schema), arguments))
    assert mirror(param_headers(schema), arguments) == theirs


@given(SOUND, ARGUMENTS)
def test_what_we_send_is_what_we_accept(properties: dict[str, Any], arguments: dict[str, Any]) -> None:
    schema = _annotated(properties)
    found = param_headers(schema)
    sent = {name: [value] for name, value in mirror(found, arguments).items()}
    assert mismatch(found, arguments, sent) is None


@given(SOUND, ARGUMENTS, ARGUMENTS, st.integers(0, 3))
def test_headers_are_compared_as_the_sdk_compares_them(
    properties: dict[str, Any], arguments: dict[str, Any], others: dict[str, Any], missing: int
) -> None:
    schema = _annotated(properties)
    sent = mirror(param_headers(schema), {**arguments, **others})
    for name in sorted(sent)[:missing]:
        del sent[name]
    _assert_agreed(schema, arguments, sent)


def _assert_agreed(schema: dict[str, Any], arguments: dict[str, Any], sent: dict[str, str]) -> None:
    theirs = validate_mcp_param_headers(schema, arguments, sent)
    ours = mismatch(param_headers(schema), arguments, {name: [value] for name, value in sent.items()})
    assert (ours is None) == (theirs is None), f"ours: {ours}; the SDK's: {theirs}"


COMPARED: list[tuple[str, Any, str]] = [
    (kind, argument, header)
    for kind in ("string", "integer", "boolean")
    for argument in (42, 42.0, -0.0, 10**25, 1e25, 4.5, "42", "42.0", True, "true", "", float("inf"), float("nan"))
    for header in ("42", "42.0", "42.00", "042", "-0", "0", "4.5", "4.2e1", "true", "True", "1", "", "inf", "nan")
]


@pytest.mark.parametrize("kind", ["string", "integer", "boolean"])
def test_numbers_are_compared_as_the_sdk_compares_them(kind: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": kind, "x-mcp-header": "A"}}}
    different: list[tuple[Any, str]] = []
    for declared, argument, header in COMPARED:
        if declared == kind:
            theirs = validate_mcp_param_headers(schema, {"a": argument}, {f"{PARAM_PREFIX}a": header})
            ours = mismatch(param_headers(schema), {"a": argument}, {f"{PARAM_PREFIX}a": [header]})
            if (ours is None) != (theirs is None):
                different.append((argument, header))
    assert not different


@pytest.mark.parametrize(
    ("arguments", "sent", "said"),
    [
        ({"a": "x"}, {}, "missing"),
        ({}, {"mcp-param-a": ["x"]}, "is present but"),
        ({"a": None}, {"mcp-param-a": [""]}, "is present but"),
        ({"a": "x"}, {"mcp-param-a": ["x", "x"]}, "more than once"),
        ({"a": "x"}, {"mcp-param-a": ["y"]}, "does not match"),
        ({"a": "x"}, {"mcp-param-a": ["=?base64?!?="]}, "does not match"),
        ({"a": ["x"]}, {"mcp-param-a": ["x"]}, "is present but"),
        ({"a": "x"}, {"mcp-param-a": ["x"], "mcp-param-unknown": ["y"]}, None),
        ({"a": ["x"]}, {}, None),
    ],
)
def test_a_mismatch_says_which_header(arguments: dict[str, Any], sent: dict[str, list[str]], said: str | None) -> None:
    problem = mismatch({("a",): ParamHeader("mcp-param-a", whole=False)}, arguments, sent)
    if said is None:
        assert problem is None
    else:
        assert problem is not None
        assert "mcp-param-a" in problem
        assert said in problem


@given(st.text("\ud800\udfffa", max_size=5))
def test_mirroring_text_with_lone_surrogates_does_not_fail_the_call(text: str) -> None:
    """Hosts send them; HTTP headers carry base64 of UTF-8, which has no form for them."""
    mirror({("a",): ParamHeader("mcp-param-a", whole=False)}, {"a": text})


def test_the_names_are_the_sdks() -> None:
    assert dict(NAMED_BY) == dict(NAME_BEARING_METHODS)
    assert headers.VERSION == "mcp-protocol-version"
    assert headers.METHOD == "mcp-method"
    assert headers.NAME == "mcp-name"


def test_a_very_deep_schema_is_walked_without_recursion() -> None:
    schema: dict[str, Any] = {"type": "string", "x-mcp-header": "Deep"}
    for _ in range(5_000):
        schema = {"properties": {"p": schema}}
    assert [header.name for header in param_headers(schema).values()] == ["mcp-param-deep"]
