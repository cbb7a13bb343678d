"""URIs inside results and definitions: what names a resource is rewritten, nothing else is touched."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.domain.uris.exposed import unwrapped, wrapped
from aggregator.domain.uris.links import in_contents, in_meta, in_prompt, in_result
from tests.laws import examples
from tests.peers.toolbox import Json

scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=10))
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)
uris = st.sampled_from(
    ["file:///a", "file://x/a", "demo://a/{b}", "urn:a:b", "https://a/b", "data:,x", "ui://a/b", "mcp://p/x", "plain"]
)
links = st.builds(lambda uri, more: {**more, "type": "resource_link", "uri": uri}, uris, st.just({"x": [1]}))
embedded = st.builds(lambda uri: {"type": "resource", "resource": {"uri": uri, "text": "t"}, "y": 1}, uris)
odd = st.sampled_from(
    [
        {"type": "resource_link"},
        {"type": "resource_link", "uri": 7},
        {"type": "resource_link", "uri": ""},
        {"type": "resource"},
        {"type": "resource", "resource": []},
        {"type": "text", "text": "file:///a", "uri": "file:///a"},
        {"type": ["resource"]},
        "text",
        None,
    ]
)
# The slow parts are in making what is looked at.
fewer = settings(max_examples=examples(40))
blocks = st.lists(st.one_of(links, embedded, odd, anything), max_size=5)
prefixes = st.sampled_from(["p", "fs", "A_b-9"])


def exposed(value: Any, prefix: str) -> Any:
    """Expose the URIs of a value, written the slow way."""
    made = copy.deepcopy(value)
    for block in made if isinstance(made, list) else ():
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            continue
        holder = {"resource_link": block, "resource": block.get("resource")}.get(block["type"])
        if isinstance(holder, dict) and isinstance(holder.get("uri"), str) and holder["uri"]:
            holder["uri"] = wrapped(prefix, holder["uri"])
    return made


@fewer
@given(prefixes, blocks, anything)
def test_blocks_of_a_result(prefix: str, content: list[Any], other: Any) -> None:
    """Links and embedded resources get the server's name, in place; everything else is as it came."""
    result = {"content": content, "structuredContent": other, "x": other}
    before = copy.deepcopy(result)
    made = in_result(prefix, result)
    assert result == before
    assert made == {**result, "content": exposed(content, prefix)}


@fewer
@given(prefixes, st.lists(st.dictionaries(st.text(max_size=4), anything, max_size=3), max_size=4))
def test_what_names_no_resource_is_the_same_object(prefix: str, content: list[Any]) -> None:
    """Nothing is copied for results without links, which are most."""
    result: Json = {"content": [{**block, "type": "text"} for block in content], "_meta": {"x": 1}}
    assert in_result(prefix, result) is result
    prompt: Json = {"messages": [{"role": "user", "content": block} for block in result["content"]]}
    assert in_prompt(prefix, prompt) is prompt


@fewer
@given(prefixes, blocks)
def test_messages_of_a_prompt(prefix: str, content: list[Any]) -> None:
    """One block or several in a message."""
    result = {"messages": [{"role": "user", "content": block} for block in content] + [{"content": content}, 7]}
    made = in_prompt(prefix, result)
    expected = [{"role": "user", "content": exposed([block], prefix)[0]} for block in content]
    assert made["messages"] == [*expected, {"content": exposed(content, prefix)}, 7]


@given(prefixes, uris.filter(lambda uri: uri != "plain"))
def test_what_was_read_comes_back_as_it_was_asked_for(prefix: str, own: str) -> None:
    """The URI that was asked for stays as the host spelled it; others of the same answer are wrapped."""
    result = {"contents": [{"uri": own, "text": "x"}, {"uri": "file:///other", "blob": ""}, {"text": "none"}, 7]}
    made = in_contents(prefix, result, own, "As-Asked://FOR")
    assert [part.get("uri") if isinstance(part, dict) else part for part in made["contents"]] == [
        "As-Asked://FOR",
        wrapped(prefix, "file:///other"),
        None,
        7,
    ]


@given(uris)
def test_a_server_without_a_prefix_has_its_links_as_they_are(uri: str) -> None:
    """No spelling leads to it alone, also if another server would answer for the URI."""
    result = {"content": [{"type": "resource_link", "uri": uri}]}
    assert in_result("", result, lambda uri: True) is result
    read = {"contents": [{"uri": uri, "text": "x"}]}
    assert in_contents("", read, "of:another", "asked:for", lambda uri: True) == read


@given(prefixes, uris)
def test_links_lead_back(prefix: str, uri: str) -> None:
    """What a host finds in a result can be asked for, and reaches the server under its own URI."""
    made = in_result(prefix, {"content": [{"type": "resource_link", "uri": uri}]})
    found = made["content"][0]["uri"]
    assert found == uri if found == uri else unwrapped(found) == (prefix, uri)


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ({"ui": {"resourceUri": "ui://v/a", "csp": {}}}, {"ui": {"resourceUri": "ui://p/v/a", "csp": {}}}),
        ({"ui/resourceUri": "ui://v/a", "x": 1}, {"ui/resourceUri": "ui://p/v/a", "x": 1}),
        (
            {"ui": {"resourceUri": "ui://v"}, "ui/resourceUri": "ui://v"},
            {"ui": {"resourceUri": "ui://p/v"}, "ui/resourceUri": "ui://p/v"},
        ),
        ({"ui": {"resourceUri": 7}}, None),
        ({"ui": []}, None),
        ({"resourceUri": "ui://v"}, None),
        ([], None),
    ],
)
def test_the_ui_of_a_tool(meta: Any, expected: Any) -> None:
    """Both ways of naming it; the scheme stays `ui:`."""
    holder = {"name": "t", "_meta": meta}
    made = in_meta("p", holder)
    assert made == ({**holder, "_meta": expected} if expected is not None else holder)
    assert (made is holder) == (expected is None)
    assert in_result("p", {"content": [], "_meta": meta})["_meta"] == (expected if expected is not None else meta)


def test_without_a_prefix_nothing_is_touched() -> None:
    result = {"content": [{"type": "resource_link", "uri": "file:///a"}], "_meta": {"ui/resourceUri": "ui://a"}}
    prompt = {"messages": [{"content": result["content"]}]}
    assert in_result("", result) is result
    assert in_prompt("", prompt) is prompt
    assert in_meta("", result) is result
