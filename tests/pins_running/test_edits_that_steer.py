"""Edits of definitions that steer a model, a user or a host: no word of them gets to a host before it is approved."""

import json
import sys
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx2
import pytest
import pytest_asyncio

from tests.end_to_end.scripted_host import MODERN
from tests.end_to_end.server_harness import write_config
from tests.faults.app_harness import Json
from tests.peers.serving import BackgroundLoop
from tests.pins_running.pins_harness import PROGRAM, ChangingServer
from tests.pins_running.test_every_way import LEGACY, PinnedServer, pinned
from tests.pins_running.test_skills import skill
from tests.polling import until

WORD: Final = "xyzzy"
# A bound that is as good as a word.
NUMBER: Final = 731_731
TITLE: Final[Json] = {"type": "string", "description": "The title of the order."}
TAGS: Final[Json] = {"type": "array", "items": {"type": "string"}}
SIZE: Final[Json] = {"type": "string", "enum": ["s", "m", "l"]}
SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {"title": TITLE, "count": {"type": "integer"}, "tags": TAGS, "size": SIZE, "note": TITLE},
}
# As the approved definition has it; many of the edits do not take it.
FITTING: Final[Json] = {"title": "a", "count": 3, "tags": [], "size": "l", "note": "b"}
# A program that calls each of some tools, and prints what comes of it.
OF_ALL: Final = """
for name in {names}:
    try:
        print(name, await call_tool(name, {given}))
    except Exception as error:
        print(name, error)
"""
BASE: Final[Json] = {
    "description": "Create one order of the whole project.",
    "inputSchema": SCHEMA,
    "annotations": {"readOnlyHint": False},
    "_meta": {"ui": {"resourceUri": "ui://shop/a"}},
}


def of_title(**more: Any) -> Json:
    """Return an edit of the argument `title`."""
    return {"inputSchema": {**SCHEMA, "properties": {**SCHEMA["properties"], "title": {**TITLE, **more}}}}


def of_schema(**more: Any) -> Json:
    """Return an edit of the whole input schema."""
    return {"inputSchema": {**SCHEMA, **more}}


def of_properties(**more: Any) -> Json:
    """Return an edit that adds arguments."""
    return of_schema(properties={**SCHEMA["properties"], **more})


EDITS: Final[dict[str, Json]] = {
    "description": {"description": f"Create one order of the whole project. {WORD}"},
    "description of an argument": of_title(description=f"The title. {WORD}"),
    "description of the schema": of_schema(description=WORD),
    "title": {"title": WORD},
    "title of annotations": {"annotations": {"title": WORD}},
    "title of an argument": of_title(title=WORD),
    "unknown annotation": {"annotations": {"readOnlyHint": False, "hint": WORD}},
    "annotation of another type": {"annotations": {"readOnlyHint": WORD}},
    "const": of_title(const=WORD),
    "const beside a type": of_title(type=["string", "null"], const=WORD),
    "enum": of_title(enum=[WORD]),
    "enum of several": of_title(enum=[WORD, "b"]),
    "oneOf of const": of_title(oneOf=[{"const": WORD, "title": "Always this one."}]),
    "anyOf": of_title(anyOf=[{"type": "string"}, {"const": WORD}]),
    "not": of_title(**{"not": {"const": WORD}}),
    "pattern": of_title(pattern=f"^{WORD}"),
    "pattern after a lookahead": of_title(pattern=f"^(?!a){WORD}"),
    "format": of_title(format=WORD),
    "default": of_title(default=WORD),
    "default of the whole": of_schema(default={"title": WORD}),
    "examples": of_title(examples=[WORD]),
    "example": of_title(example=WORD),
    "comment": of_title(**{"$comment": WORD}),
    "unknown keyword": of_title(**{"x-note": WORD}),
    "enum descriptions": of_title(enumDescriptions=[WORD]),
    "media type": of_title(contentMediaType=WORD),
    "fewer values and another": of_properties(size={**SIZE, "enum": ["s", "m", WORD]}),
    "fewer values": of_properties(size={**SIZE, "enum": ["s", "m"], "description": WORD}),
    "one value left": of_properties(size={"const": "m", "description": WORD}),
    "one value left beside another": of_properties(size={**SIZE, "enum": ["s", WORD]}),
    "a number of items": of_properties(tags={**TAGS, "minItems": NUMBER}),
    "values of items": of_properties(tags={**TAGS, "minItems": 1, "items": {"type": "string", "enum": [WORD, "b"]}}),
    "a form of items": of_properties(tags={**TAGS, "items": {"type": "string", "pattern": WORD}}),
    "the least number": of_properties(count={"type": "integer", "minimum": NUMBER}),
    "the largest number": of_properties(count={"type": "integer", "maximum": -NUMBER}),
    "steps of numbers": of_properties(count={"type": "integer", "multipleOf": NUMBER}),
    "a length": of_title(minLength=NUMBER),
    "form and length": of_title(pattern=f"{WORD}|b", maxLength=NUMBER, format=WORD),
    "an argument less, and another": of_schema(
        properties={**{n: v for n, v in SCHEMA["properties"].items() if n != "note"}, WORD: TITLE},
        additionalProperties=False,
    ),
    "an optional argument that is required": of_schema(required=["title"]),
    "one that reads": {"annotations": {"readOnlyHint": True, "destructiveHint": False}},
    "an optional argument": of_properties(xyzzy=TITLE),
    "a required argument": {**of_schema(properties={**SCHEMA["properties"], "xyzzy": TITLE}, required=["xyzzy"])},
    "required alone": of_schema(required=["title", "xyzzy"]),
    "names of properties": of_schema(propertyNames={"enum": [WORD]}),
    "pattern of names": of_schema(patternProperties={WORD: TITLE}),
    "other properties": of_schema(additionalProperties={"type": "string", "description": WORD}),
    "dependent": of_schema(dependentRequired={"title": ["xyzzy"]}),
    "condition": of_schema(**{"if": {"required": ["title"]}, "then": {"properties": {"count": {"const": WORD}}}}),
    "definitions": of_schema(**{"$defs": {"a": {"description": WORD}}}),
    "dialect": of_schema(**{"$schema": f"https://{WORD}.example/schema"}),
    "header": of_title(**{"x-mcp-header": WORD}),
    "output": {"outputSchema": {"type": "object", "properties": {"a": {"description": WORD}}}},
    "app": {"_meta": {"ui": {"resourceUri": f"ui://{WORD}/a"}}},
    "app with a slash": {"_meta": {"ui": {"resourceUri": "ui://shop/a"}, "ui/resourceUri": f"ui://{WORD}"}},
    "meta of OpenAI": {"_meta": {"ui": {"resourceUri": "ui://shop/a"}, "openai/outputTemplate": WORD}},
    "meta of Anthropic": {"_meta": {"ui": {"resourceUri": "ui://shop/a"}, "anthropic/alwaysLoad": WORD}},
    "icons": {"icons": [{"src": f"https://{WORD}.example/a.png"}]},
    "execution": {"execution": {"taskSupport": "optional", "note": WORD}},
    "unknown member": {"note": WORD},
}
PROMPT: Final[Json] = {"name": "greet", "description": "Greet one.", "arguments": [{"name": "who"}]}
PROMPTS: Final[list[Json]] = [
    {**PROMPT, "description": WORD},
    {**PROMPT, "title": WORD},
    {**PROMPT, "arguments": [{"name": "who", "description": WORD}]},
    {**PROMPT, "arguments": [{"name": "who"}, {"name": WORD}]},
    {**PROMPT, "arguments": [{"name": "who"}, {"name": WORD, "required": True}]},
]
TEMPLATE: Final[Json] = {"uriTemplate": "shop://orders/{id}", "name": "orders", "description": "One order."}
TEMPLATES: Final[list[Json]] = [
    {**TEMPLATE, **edit}
    for edit in ({"description": WORD}, {"name": WORD}, {"title": WORD}, {"mimeType": f"text/{WORD}"})
]


def named(number: int) -> str:
    """Return the name of the tool with one edit, which says nothing of it."""
    return f"order_{number:02}"


def tools(*, edited: bool) -> list[Json]:
    """Return one tool for each edit."""
    return [{**BASE, **(edit if edited else {}), "name": named(number)} for number, edit in enumerate(EDITS.values())]


def several(base: Json, edits: list[Json], *, edited: bool) -> list[Json]:
    """Return one prompt or template for each edit, under names of their own."""
    found = []
    for number, edit in enumerate(edits):
        one = dict(edit if edited else base)
        if "uriTemplate" in one:
            one["uriTemplate"] = f"shop://orders{number}/{{id}}"
        else:
            one["name"] = f"greet_{number}"
        found.append(one)
    return found


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> ChangingServer:
    return ChangingServer(tmp_path_factory.mktemp("shop"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def edited(shop: ChangingServer) -> AsyncIterator[PinnedServer]:
    """A gateway whose server edited all that was approved, and added more. Tests only read from it."""
    with BackgroundLoop() as background:
        gateway = await pinned(background, shop)
        await _edit(gateway, shop)
        yield gateway


async def _edit(gateway: PinnedServer, shop: ChangingServer) -> None:
    sync = gateway.app.pins
    assert sync is not None

    async def read_again() -> None:
        gateway.app.upstreams["shop"].lists.read_again()

    settings: Json = {"prompts": several(PROMPT, PROMPTS, edited=False)}
    settings["templates"] = several(TEMPLATE, TEMPLATES, edited=False)
    shop.says(*tools(edited=False), **settings)
    await gateway.background.elsewhere(read_again())
    await until(lambda: sync.held_count("shop") == len(EDITS) + len(PROMPTS) + len(TEMPLATES), "they are there")
    await until(lambda: sync.settled, "they are written")
    await shop.approve_held()
    await until(lambda: sync.held_count("shop") == 0, "all is approved")
    skills, files = skill(f"Pay back. {WORD}")
    settings = {"prompts": [*several(PROMPT, PROMPTS, edited=True), {**PROMPT, "name": WORD}]}
    settings["templates"] = [
        *several(TEMPLATE, TEMPLATES, edited=True),
        {**TEMPLATE, "uriTemplate": f"{WORD}://{{id}}"},
    ]
    shop.says(*tools(edited=True), {**BASE, "name": WORD}, skills=skills, files=files, **settings)
    await gateway.background.elsewhere(read_again())
    await until(lambda: len(sync.waiting("shop")) > len(EDITS) // 2, "they wait")
    await until(lambda: sync.settled, "they are written")


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_no_word_gets_to_a_host(edited: PinnedServer, version: str) -> None:
    names = [f"shop.{named(number)}" for number in range(len(EDITS))]
    heard: list[Any] = []
    async with edited.host("http", version) as host:
        methods = ("tools/list", "prompts/list", "resources/templates/list", "resources/list")
        heard += [await host.ask(method).result() for method in methods]
        calls: list[tuple[str, Json]] = [
            ("search_tools", {"query": "create one order of the project"}),
            ("search_tools", {"query": f"always {WORD[:-1]}"}),
            ("list_servers", {}),
            ("list_servers", {"server": "shop"}),
            *(("describe_tools", {"names": [name]}) for name in names),
            *((name, {"title": 7, "count": "no"}) for name in names),
            *((name, FITTING) for name in names),
            *(("call_tool", {"name": name, "arguments": FITTING}) for name in names),
            ("run_code", {"code": OF_ALL.format(names=names, given=FITTING)}),
            *((name, {}) for name in names[:3]),
            ("call_tool", {"name": names[0], "arguments": {"title": 7}}),
            ("run_code", {"code": f"print(await call_tool({names[0]!r}, {{'title': 7}}))"}),
            ("run_code", {"code": "help(tools)"}),
        ]
        heard += [await host.call(name, arguments).message() for name, arguments in calls]
        for number in range(len(PROMPTS)):
            answer = await host.ask("prompts/get", {"name": f"shop.greet_{number}", "arguments": {}}).message()
            heard.append(answer.get("error"))
    refused = [one for one in heard if "its server takes less than the approved definition" in json.dumps(one)]
    assert len(refused) > 10, "on the direct way and by a meta tool"
    async with httpx2.AsyncClient(base_url=edited.url, timeout=20) as client:
        heard += [(await client.get(f"/v1/tools?format={form}")).text for form in ("openai", "anthropic", "gemini")]
        for arguments, some in (({"title": 7}, names[:5]), (FITTING, names[:20]), (FITTING, names[20:40])):
            body = {"tool_calls": [{"name": name, "arguments": arguments} for name in some]}
            heard.append((await client.post("/v1/tool_calls", json=body)).text)
    said = [json.dumps(one) for one in heard]
    assert [one for one in said if (WORD in one or f"{NUMBER}" in one) and f"always {WORD[:-1]}" not in one] == []


async def test_a_restart_shows_no_word_either(edited: PinnedServer, shop: ChangingServer) -> None:
    """Nor does a list of all tools, which has the approved definitions member by member."""
    entry = {"command": sys.executable, "args": ["-I", "-S", str(PROGRAM), str(shop.file)]}
    path = write_config(shop.folder, {"shop": entry}, expose="all")
    with BackgroundLoop() as background:
        again = PinnedServer(background, path, None, shop.storage)
        async with again.host("http", LEGACY) as host:
            said = [await host.ask(one).result() for one in ("tools/list", "prompts/list", "resources/templates/list")]
            said += [
                await host.call("describe_tools", {"names": [f"shop.{named(one)}"]}).result()
                for one in range(len(EDITS))
            ]
    assert WORD not in json.dumps(said)
    assert f"{NUMBER}" not in json.dumps(said)
    listed = {one["name"]: one for one in said[0]["tools"]}
    shown = listed.keys() & {f"shop.{named(one)}" for one in range(len(EDITS))}
    assert len(shown) > len(EDITS) * 2 // 3
    for name in shown:
        # URIs of apps have the name of their server here.
        said_of = {member: listed[name].get(member) for member in BASE if member != "_meta"}
        assert said_of == {member: value for member, value in BASE.items() if member != "_meta"}, name
