"""MCP results as the content of LangChain messages."""

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import ToolMessage
from langchain_core.tools.base import TOOL_MESSAGE_BLOCK_TYPES

from aggregator.adapters.content import content_of, text_of
from tests.peers.toolbox import Json

ONE: Final = {"type": "text", "text": "one"}
IMAGE: Final = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
SHOWN: Final = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}


def words(text: str) -> Json:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("blocks", "content"),
    [
        ([], ""),
        ([ONE], "one"),
        ([ONE, words("two")], [ONE, words("two")]),
        ([{**ONE, "annotations": {"audience": ["user"]}, "x": 1}], "one"),
        ([IMAGE], [SHOWN]),
        ([ONE, {**IMAGE, "x": 1}], [ONE, SHOWN]),
        ([{"type": "audio", "data": "AAAAAA==", "mimeType": "audio/wav"}], "[audio/wav, 4 bytes]"),
        ([{"type": "resource_link", "uri": "a:b", "name": "n"}], "[a:b] n"),
        (
            [{"type": "resource_link", "uri": "a:b", "name": "n", "title": "T", "mimeType": "text/csv"}],
            "[a:b] T; n; text/csv",
        ),
        ([{"type": "resource", "resource": {"uri": "a:b", "text": "t"}}], "[a:b]\nt"),
        ([{"type": "resource", "resource": {"uri": "a:b", "blob": "AAAA", "mimeType": "image/png"}}], [SHOWN]),
        ([{"type": "resource", "resource": {"uri": "a:b", "blob": "AAAA"}}], "[a:b] data, 3 bytes"),
        ([{"type": "resource", "resource": {"uri": "a:b", "blob": "AA==", "mimeType": "a/b"}}], "[a:b] a/b, 1 bytes"),
        ([{"type": "new", "x": "三"}], '{"type":"new","x":"三"}'),
        ([None, "text"], [words("null"), words('"text"')]),
    ],
)
def test_each_kind_of_block(blocks: list[Any], content: Any) -> None:
    """Proves: E6, C10. Texts as they are, images as LangChain has them, the rest in words."""
    assert content_of({"content": blocks}) == content
    assert content_of({"content": blocks, "structuredContent": {"a": 1}}) == (content if blocks else '{"a":1}')


def test_an_exceptions_message_holds_no_data() -> None:
    """The texts are joined; an image is left out."""
    assert text_of({"content": [ONE, IMAGE, words("two")]}) == "one\ntwo"
    assert text_of({"content": [ONE]}) == "one"
    assert text_of({"content": [IMAGE]}) == ""


KEYS: Final = st.sampled_from(
    ["type", "text", "data", "mimeType", "resource", "uri", "blob", "name", "content", "structuredContent"]
)
LEAVES: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters()),
    st.sampled_from(["text", "image", "audio", "resource", "resource_link", "image/png"]),
)
ANY: Final = st.recursive(
    LEAVES, lambda deeper: st.lists(deeper, max_size=4) | st.dictionaries(KEYS, deeper, max_size=5), max_leaves=20
)


@given(st.dictionaries(KEYS, ANY))
def test_any_result_is_content_a_message_takes(result: Json) -> None:
    """Proves: E6. Never an exception, and never a block that LangChain would turn the whole message into text for."""
    content = content_of(result)
    assert content == content_of(result)
    if isinstance(content, list):
        assert all(isinstance(block, dict) and block["type"] in TOOL_MESSAGE_BLOCK_TYPES for block in content)
    assert ToolMessage(content, tool_call_id="1").content == content
    json.dumps(content)
    assert isinstance(text_of(result), str)
