"""Lists of tools no server should send: each fault costs the tool it is in, and is told (C5, C6, E9)."""

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from aggregator.schemas.check import compile_check
from aggregator.schemas.fault import UnusableSchema
from aggregator.upstream.lists import paging as listing
from tests.polling import until

from .app_harness import Json, lines_of, raw_stdio, running_app, text_of

OBJECT: Json = {"type": "object"}


def tool(name: Any = "odd", schema: Any = None, **more: Any) -> Json:
    return {"name": name, "inputSchema": OBJECT if schema is None else schema, **more}


def nested(depth: int, key: str = "items") -> Json:
    schema: Json = {"type": "string"}
    for _ in range(depth):
        schema = {key: schema}
    return schema


def wide(properties: int) -> Json:
    return OBJECT | {"properties": {f"p{at}": {} for at in range(properties)}}


WIDE = wide(5_000)
LEFT_OUT: dict[str, Any] = {
    "no name": {"inputSchema": OBJECT},
    "name null": tool(None),
    "name a number": tool(7),
    "name a list": tool(["odd"]),
    "name empty": tool(""),
    "not an object": "odd",
    "null": None,
    "a list": [1],
    "schema a list": tool(schema=[1]),
    "schema a string": tool(schema="object"),
    "schema false": tool(schema=False),
    "type array": tool(schema={"type": "array"}),
    "type a list": tool(schema={"type": ["object", "null"]}),
    "unknown dialect": tool(schema=OBJECT | {"$schema": "https://example.com/my-own"}),
    "dialect a number": tool(schema=OBJECT | {"$schema": 7}),
    "dialect a list": tool(schema=OBJECT | {"$schema": [1]}),
    "ref to the network": tool(schema=OBJECT | {"properties": {"a": {"$ref": "https://example.com/a.json"}}}),
    "ref to a file": tool(schema=OBJECT | {"properties": {"a": {"$ref": "file:///etc/passwd"}}}),
    "ref to a neighbour": tool(schema=OBJECT | {"properties": {"a": {"$ref": "other.json#/x"}}}),
    "dynamic ref": tool(schema=OBJECT | {"$dynamicRef": "https://example.com/a"}),
    "deep schema": tool(schema=OBJECT | nested(400)),
    "more subschemas than can be checked": tool(schema=WIDE),
    "more subschemas than can be checked, by a reference": tool(
        schema=OBJECT | {"components": WIDE, "properties": {"a": {"$ref": "#/components"}}}
    ),
    "more values than can be checked": tool(schema=OBJECT | {"properties": {"a": {"enum": [*range(100_000)]}}}),
    "half a character in its name": tool("a\ud800b"),
    "NUL in its name": tool("a\0b"),
    "half a character in the name of an argument": tool(schema=OBJECT | {"properties": {"a\udfff": {}}}),
    "half a character in a value": tool(schema=OBJECT | {"properties": {"a": {"enum": ["x", "\ud83d"]}}}),
    "half a character in a name of its own": tool(_meta={"x\ud83d": 1}),
}
MENDED: dict[str, Any] = {
    "no schema": {"name": "odd"},
    "schema null": {"name": "odd", "inputSchema": None},
    "no type": tool(schema={"properties": {"a": {"type": "string"}}}),
    "header on a list": tool(schema=OBJECT | {"properties": {"a": {"type": "array", "x-mcp-header": "A"}}}),
    "header at the root": tool(schema=OBJECT | {"x-mcp-header": ["A"]}),
    "type int": tool(schema=OBJECT | {"properties": {"a": {"type": "int"}}}),
    "$id a list": tool(schema=OBJECT | {"$id": [1]}),
    "required a text": tool(schema=OBJECT | {"required": "a"}),
    "pattern that is none": tool(schema=OBJECT | {"properties": {"a": {"pattern": "("}}}),
    "NaN as a bound": tool(schema=OBJECT | {"minimum": float("nan")}),
    "output of type int": tool(outputSchema=OBJECT | {"properties": {"a": {"type": "int"}}}),
    "output of an unknown type": tool(outputSchema=OBJECT | {"properties": {"a": {"type": "file"}}}),
    "output with a ref to nothing": tool(outputSchema={"$ref": "#/$defs/gone"}),
    "output deeper than can be checked": tool(outputSchema=OBJECT | nested(101)),
    "output with more subschemas than can be checked": tool(outputSchema=WIDE),
    "output with more values than can be checked": tool(outputSchema=OBJECT | {"enum": [*range(100_000)]}),
    "output a string": tool(outputSchema="object"),
    "output of an unknown dialect": tool(outputSchema=OBJECT | {"$schema": "x"}),
}
KEPT: dict[str, Any] = {
    "a property called $id": tool(schema=OBJECT | {"properties": {"$id": {"type": "string"}}}),
    "a property called $ref": tool(schema=OBJECT | {"properties": {"$ref": {"type": "string"}}}),
    "a property called $schema": tool(schema=OBJECT | {"properties": {"$schema": {"type": "string"}}}),
    "recursive": tool(schema=OBJECT | {"properties": {"a": {"$ref": "#"}}}),
    "its own id": tool(
        schema=OBJECT | {"$id": "https://e.com/s", "properties": {"a": {"$ref": "https://e.com/s#/x"}}, "x": {}}
    ),
    "own $id in outputSchema": tool(outputSchema=OBJECT | {"properties": {"$id": {"type": "string"}}}),
    "strange fields": tool(title=7, description=["x"], annotations="no", icons=None, execution=1, future={"a": 1}),
    "300 characters": tool("n" * 300),
    "5000 characters": tool("n" * 5000),
    "strange characters": tool("a b/c:d?é中\t\n"),
    "dots only": tool("..."),
    "schema of 2 MB": tool(schema=OBJECT | {"description": "x" * 2_000_000}),
    "numbers JSON hardly has": tool(schema=OBJECT | {"maximum": 10**30, "default": float("nan")}),
    "as many subschemas as can be checked": tool(schema=wide(4_999)),
    "more objects than subschemas": tool(schema=OBJECT | {"properties": {"a": {"enum": [{}] * 6_000}}}),
    "as many values as can be checked": tool(schema=OBJECT | {"enum": [*range(99_990)]}),
    "as deep as can be checked": tool(schema=OBJECT | nested(99)),
}


def listed(tmp_path: Path, *tools: Any) -> Path:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps({"tools": list(tools)}))
    return path


async def names_listed(harness: Any) -> list[str]:
    """Over every page, as a host gets them, in JSON that can be read."""
    names: list[str] = []
    cursor: Json = {}
    while True:
        page = await harness.ask("tools/list", cursor)
        names += [tool["name"] for tool in json.loads(bytes(page["tools"]))]
        if "nextCursor" not in page:
            return names
        cursor = {"cursor": page["nextCursor"]}


@pytest.mark.parametrize("fault", LEFT_OUT)
async def test_a_tool_that_cannot_be_shown_costs_itself(
    fault: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """C5, E9: the tools beside it are listed and work; a warning tells."""
    path = listed(tmp_path, tool("echo"), LEFT_OUT[fault], tool("large"))
    with caplog.at_level(logging.WARNING):
        async with running_app(raw_stdio("s", listing=path), raw_stdio("good")) as harness:
            assert harness.upstream("s").state == "ready", harness.upstream("s").reason
            assert [name for name in await names_listed(harness) if name.startswith("s.")] == ["s.echo", "s.large"]
            await harness.check_echo("s.echo")
            await harness.check_echo("good.echo")
    assert any("is left out" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("fault", MENDED)
async def test_a_tool_that_can_be_mended_is(fault: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """C6: with a warning; its schema is an object then."""
    path = listed(tmp_path, tool("echo"), MENDED[fault])
    with caplog.at_level(logging.WARNING):
        async with running_app(raw_stdio("s", listing=path)) as harness:
            assert await names_listed(harness) == ["s.echo", "s.odd"]
            await harness.check_echo("s.echo")
    assert any("was mended" in record.getMessage() for record in caplog.records)


async def test_tools_that_are_mended_in_one_way_are_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """7 of issue 32: a server whose library leaves the type out has one line, not one for each tool."""
    several = [tool(f"t{number}", inputSchema={"properties": {}}) for number in range(3)]
    path = listed(tmp_path, tool("echo"), *several, tool("odd", inputSchema=None))
    with caplog.at_level(logging.WARNING):
        async with running_app(raw_stdio("s", listing=path)) as harness:
            faults = harness.upstream("s").faults
            said = "s: tool 't0' and 2 more were mended: its inputSchema has no type; \"object\" was added"
            assert said in faults.for_operators()
            assert "4 tools mended: faulty as listed" in faults.for_agents()
            assert [record.getMessage() for record in caplog.records if "has no type" in record.getMessage()] == [said]


@pytest.mark.parametrize("case", KEPT)
async def test_a_tool_that_is_only_strange_is_kept(case: str, tmp_path: Path) -> None:
    """C6, B5: under one name that hosts can live with."""
    path = listed(tmp_path, tool("echo"), KEPT[case])
    async with running_app(raw_stdio("s", listing=path), raw_stdio("good")) as harness:
        assert harness.upstream("s").state == "ready", harness.upstream("s").reason
        names = [name for name in await names_listed(harness) if name.startswith("s.")]
        assert len(set(names)) == 2
        assert all(len(name) <= 128 and name.isascii() and name.isprintable() and " " not in name for name in names)
        await harness.check_echo("s.echo")
        await harness.check_echo("good.echo")


async def test_of_two_tools_of_one_name_the_first_counts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """B5: the second costs itself."""
    path = listed(tmp_path, tool("echo", description="first"), tool("echo", description="second"), tool("large"))
    with caplog.at_level(logging.WARNING):
        async with running_app(raw_stdio("s", listing=path)) as harness:
            assert await names_listed(harness) == ["s.echo", "s.large"]
            assert harness.app.gateway.catalog.tools[0].definition["description"] == "first"
    assert any("lists it twice" in record.getMessage() for record in caplog.records)


async def test_names_that_read_the_same_to_hosts_stay_apart(tmp_path: Path) -> None:
    """B5, F2: also once every `.` is a `_`."""
    path = listed(tmp_path, *(tool(name) for name in ("a.b", "a_b", "a b", "a/b", "a:b", "A_b", "a\tb", "a__b")))
    async with running_app(raw_stdio("s", listing=path), raw_stdio("s_a"), raw_stdio("s__a")) as harness:
        names = await names_listed(harness)
        assert len({name.replace(".", "_") for name in names}) == len(names)
        compatible = [tool.listed["compatible"] for tool in harness.app.gateway.catalog.tools]
        assert len(set(compatible)) == len(compatible)


@pytest.mark.parametrize(("mode", "tools"), [("pages=loop", 11), ("pages=endless", 50)])
async def test_a_list_without_end_is_used_as_far_as_it_came(
    mode: str, tools: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """C5: a cursor that comes again, or pages for ever: each name once, a warning, and one connection."""
    monkeypatch.setattr(listing, "PAGE_LIMIT", 50)
    log = tmp_path / "log"
    with caplog.at_level(logging.WARNING):
        async with running_app(raw_stdio("book", mode, log=log), raw_stdio("good")) as harness:
            assert harness.upstream("book").state == "ready", harness.upstream("book").reason
            names = [name for name in await names_listed(harness) if name.startswith("book.")]
            assert len(names) == len(set(names)) == tools
            said = await harness.call("list_servers")
            await harness.check_echo("good.echo")
            # The probe ends with the answer of a server of the handshake eras, so that one start serves all.
            assert len([line for line in lines_of(log) if line.startswith("start ")]) == 1
            assert lines_of(log).count("list") <= 51
    line = next(line for line in text_of(said).splitlines() if line.startswith("book "))
    assert "pag" in line
    assert "`tools/list`" in line
    assert any("book" in record.getMessage() and "`tools/list`" in record.getMessage() for record in caplog.records)


async def test_a_list_that_is_whole_again_is_no_longer_called_faulty(tmp_path: Path) -> None:
    """C5: neither models nor operators are told of a fault that the server has mended."""
    path = listed(tmp_path, tool("one"))
    path.write_text(json.dumps({"tools": [tool("one")], "nextCursor": "a"}))
    async with running_app(raw_stdio("book", listing=path)) as harness:
        upstream = harness.upstream("book")
        assert "`tools/list`" in text_of(await harness.call("list_servers"))
        assert len(upstream.faults.for_operators()) == 1
        listed(tmp_path, tool("one"), tool("two"))
        await upstream.read_tools_again()
        await until(lambda: len(upstream.definitions) == 2, "the list was read again")
        assert "`tools/list`" not in text_of(await harness.call("list_servers"))
        assert upstream.faults.for_operators() == []


@pytest.mark.parametrize("text", ['{"tools":null}', '{"tools":[]}'])
async def test_an_empty_list_is_a_list(text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """C5: some languages write an empty list as null. That nothing is in it is said, once."""
    path = tmp_path / "tools.json"
    path.write_text(text)
    with caplog.at_level(logging.WARNING):
        async with running_app(raw_stdio("s", listing=path), raw_stdio("good")) as harness:
            assert harness.upstream("s").state == "ready", harness.upstream("s").reason
            said = text_of(await harness.call("list_servers"))
    assert "s (ready, 0 tools) [offers nothing: it lists no tools, prompts or resources]" in said.splitlines()
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["s offers nothing: it lists no tools, prompts or resources"]


@pytest.mark.parametrize("tools", [{"include": ["ecko"]}, {"exclude": ["*"]}], ids=str)
async def test_a_filter_that_takes_no_tool(
    tools: dict[str, list[str]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """E9: a misspelled name in `tools.include` is said, to hosts too: no item says that the server exists."""
    path = listed(tmp_path, tool("echo"), tool("large"))
    with caplog.at_level(logging.WARNING):
        raw = raw_stdio("s", listing=path, tools=tools)
        async with running_app(raw, raw_stdio("good")) as harness:
            said = text_of(await harness.call("list_servers"))
            alone = text_of(await harness.call("list_servers", server="s"))
            messages = [record.getMessage() for record in caplog.records]
    assert messages == ["s: `tools.include` and `tools.exclude` in its config take none of its tools, 2 in all"]
    line = "s (ready, 0 tools) [`tools.include` and `tools.exclude` in its config take none of its tools]"
    assert line in said.splitlines()
    assert line in alone.splitlines()


@pytest.mark.parametrize("text", ['{"tools":{}}', "{}", "[]"])
async def test_a_page_that_is_none(text: str, tmp_path: Path) -> None:
    """C5, D3: a clear reason."""
    path = tmp_path / "tools.json"
    path.write_text(text)
    async with running_app(raw_stdio("s", listing=path), raw_stdio("good")) as harness:
        assert harness.upstream("s").state == "unavailable"
        assert re.search("tools/list|neither a result", harness.upstream("s").reason_for_operator)
        await harness.check_echo("good.echo")


@pytest.mark.parametrize("depth", [500, 850, 930])
@pytest.mark.parametrize("field", ["default", "annotations"])
async def test_depth_outside_the_schema_costs_that_tool_at_most(field: str, depth: int, tmp_path: Path) -> None:
    """C5, A1: what can just be read must not break the list that holds it, nor later changes of the catalog."""
    deep = "[" * depth + "]" * depth
    odd = json.dumps(tool(schema=OBJECT | {"default": 7}) if field == "default" else tool(annotations=7))
    path = tmp_path / "tools.json"
    path.write_text('{"tools":[' + f"{json.dumps(tool('echo'))},{odd.replace('7', deep)}" + "]}")
    async with running_app(raw_stdio("s", listing=path, limits={"connect_timeout": 2}), raw_stdio("good")) as harness:
        assert "good.echo" in await names_listed(harness)
        harness.app.updates.rebuild()
        await harness.check_echo("good.echo")
        assert harness.upstream("s").state == "ready", harness.upstream("s").reason
        assert "s.echo" in await names_listed(harness)


async def test_a_schema_too_deep_to_be_read_costs_that_tool(tmp_path: Path) -> None:
    """C5: 5,000 levels, more than any parser here takes."""
    path = tmp_path / "tools.json"
    deep = '{"name":"deep","inputSchema":{"type":"object","x":' + "[" * 5000 + "]" * 5000 + "}}"
    path.write_text('{"tools":[' + json.dumps(tool("echo")) + "," + deep + "]}")
    async with running_app(raw_stdio("s", listing=path, limits={"connect_timeout": 2}), raw_stdio("good")) as harness:
        await harness.check_echo("good.echo")
        assert harness.upstream("s").state == "ready", harness.upstream("s").reason
        await harness.check_echo("s.echo")


async def test_twenty_thousand_tools(tmp_path: Path) -> None:
    """C5: a list far beyond reason is listed, page by page, each under a name of its own."""
    path = listed(tmp_path, tool("echo"), *(tool(f"t{number}") for number in range(20_000)))
    async with running_app(raw_stdio("s", listing=path, limits={"connect_timeout": 15}), raw_stdio("good")) as harness:
        names = await names_listed(harness)
        assert len(set(names)) == len(names) >= 20_001
        assert text_of(await harness.call("s.echo", say="x")) == "x"


@pytest.mark.parametrize("case", [name for name in {**LEFT_OUT, **MENDED, **KEPT} if "can be checked" in name])
def test_what_is_listed_can_be_checked(case: str) -> None:
    """C6: no tool is listed of which each call is refused: the bounds of lists are those of checks."""
    definition = {**LEFT_OUT, **MENDED, **KEPT}[case]
    schema = definition.get("outputSchema", definition["inputSchema"])
    if case in KEPT:
        compile_check(schema)
    else:
        with pytest.raises(UnusableSchema):
            compile_check(schema)
