"""Every door x host era x kind of upstream: resources, templates, prompts and completion, there and back."""

from typing import Any, Final

import pytest

from aggregator.domain.uris import wrapped
from tests.journeys.hosts import MODERN, Host
from tests.journeys.house import DOORS, House
from tests.passing.shelves import LISTS, UPSTREAMS, listed, read
from tests.peers.library import (
    BOOK,
    DOCS,
    FILE,
    ITEM,
    LINKS,
    PAGE,
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    VENDOR,
    VIEW,
    WORDS,
)
from tests.peers.toolbox import Json

VERSIONS: Final = ("2025-11-25", MODERN)

everywhere = pytest.mark.parametrize("door", DOORS)
every_era = pytest.mark.parametrize("version", VERSIONS)


def in_order(definitions: list[Json], field: str, first: set[str]) -> list[Json]:
    """What is to be listed of every upstream: URIs with its name; an `https:` one as it is the first time."""
    expected = []
    for upstream in UPSTREAMS:
        for definition in definitions:
            uri = definition[field]
            exposed = wrapped(upstream, uri)
            if exposed in first:
                exposed = f"mcp://{upstream}/{uri}"
            elif exposed == uri:
                first.add(uri)
            expected.append({**definition, field: exposed})
    return expected


@everywhere
@every_era
async def test_every_definition_is_listed_as_it_came(house: House, door: str, version: str) -> None:
    """All resources, templates and prompts of all upstreams in config order: each its own JSON but for URI or name.

    Proves: F1
    """
    async with house.host(door, version) as host:
        found = {field: await listed(host, method) for method, field in LISTS.items()}
        capabilities = host.greeting["capabilities"]
    assert found["resources"] == in_order(RESOURCES, "uri", set())
    assert found["resourceTemplates"] == in_order(TEMPLATES, "uriTemplate", set())
    names = [prompt.pop("name") for prompt in found["prompts"]]
    by = "__" if door == "stdio" else "."
    plain = [name for name in names if not name.rpartition("_")[2][:1].isdigit()]
    assert set(plain) <= {f"{upstream}{by}{prompt['name']}" for upstream in UPSTREAMS for prompt in PROMPTS}
    assert len(set(names)) == len(UPSTREAMS) * len(PROMPTS)
    rest = [{key: value for key, value in prompt.items() if key != "name"} for prompt in PROMPTS]
    assert found["prompts"] == rest * len(UPSTREAMS)
    assert capabilities["resources"] == {"subscribe": True, "listChanged": True}
    assert capabilities["prompts"] == {"listChanged": True}
    assert capabilities["completions"] == {}


def check_envelope(result: Json, version: str) -> Json:
    """The result as the host's era has it; what is left is the upstream's own."""
    rest = dict(result)
    if version == MODERN:
        assert rest.pop("resultType") == "complete"
        meta = rest.pop("_meta")
        assert meta.pop("io.modelcontextprotocol/serverInfo")["name"] == "aggregator"
        if meta:
            rest["_meta"] = meta
    else:
        assert "resultType" not in rest
    return rest


def hints(upstream: str, version: str) -> Json:
    """Of a read: the upstream's own, where it gives any."""
    if version != MODERN:
        return {}
    told = UPSTREAMS[upstream] == MODERN
    return {"ttlMs": 60_000, "cacheScope": "public"} if told else {"ttlMs": 0, "cacheScope": "private"}


@everywhere
@every_era
async def test_a_resource_is_read_whole(house: House, door: str, version: str) -> None:
    """Proves: F1. Under our URI, from the right server, unknown fields and all; what comes back has URIs of ours."""
    async with house.host(door, version) as host:
        for upstream in UPSTREAMS:
            for own in (FILE, PAGE, BOOK, ITEM.replace("{id}", "7")):
                asked = wrapped(upstream, own) if own != PAGE else f"mcp://{upstream}/{own}"
                result = await host.ask("resources/read", {"uri": asked}).result()
                first = {"uri": asked, "mimeType": "text/plain", "text": f"library: {own}", **VENDOR}
                more = [{"uri": f"{asked}/part", "blob": "AA=="}] if own == FILE else []
                expected = {"contents": [first, *more], "x-vendor-result": "kept", **hints(upstream, version)}
                assert check_envelope(result, version) == expected, upstream


@everywhere
@every_era
async def test_what_is_not_there(house: House, door: str, version: str) -> None:
    """-32602 in 2026-07-28 and -32002 before, whatever the upstream says, under the URI that was asked for."""
    async with house.host(door, version) as host:
        code = -32602 if host.modern else -32002
        for uri in ("file://nobody//here", "nothing", "https://example.com/nobody"):
            error = await host.ask("resources/read", {"uri": uri}).error()
            assert (error["code"], error["data"]) == (code, {"uri": uri})
        assert (await host.ask("completion/complete").error())["code"] == -32602
        for upstream in UPSTREAMS:
            uri = f"file://{upstream}//nothing"
            error = await host.ask("resources/read", {"uri": uri}).error()
            assert (error["code"], error["data"]) == (code, {"uri": uri, "com.example/hint": 1}), upstream
            error = await host.ask("prompts/get", {"name": f"{upstream}.grete"}).error()
            by = "__" if door == "stdio" else "."
            assert (error["code"], error["data"]["nearest"][0]) == (-32602, f"{upstream}{by}greet")


@everywhere
@every_era
async def test_prompts_under_every_spelling(house: House, door: str, version: str) -> None:
    """Proves: F1, F2. The arguments arrive, the messages come back with URIs of ours, and nothing is lost."""
    async with house.host(door, version) as host:
        for upstream in UPSTREAMS:
            for by in (".", "__", "/", ":"):
                asked = {"name": f"{upstream}{by}greet", "arguments": {"who": "知"}, "_meta": {"com.example/x": 1}}
                result = check_envelope(await host.ask("prompts/get", asked).result(), version)
                assert result["messages"][0]["content"]["text"] == 'library greets {"who": "\\u77e5"}', upstream
                assert result["x-vendor-result"] == "kept"
            asked = {"name": f"{upstream}.embed", "arguments": {"uri": "file:///x"}}
            embedded = await host.ask("prompts/get", asked).result()
            assert [message["content"] for message in embedded["messages"]] == [
                {"type": "resource", "resource": {"uri": f"file://{upstream}//x", "text": "inside"}},
                {**LINKS[1], "uri": f"file://{upstream}//notes/a.txt"},
            ]


@everywhere
@every_era
async def test_links_in_results_can_be_read(house: House, door: str, version: str) -> None:
    """Proves: F1, C10. Also what no list shows; `ui:` stays `ui:`, in the definition and in the result."""
    bare = [{key: value for key, value in block.items() if key not in ("uri", "resource")} for block in LINKS]
    async with house.host(door, version) as host:
        definitions = [one for one in await host.list() if one["name"].endswith("links")]
        for upstream, definition in zip(UPSTREAMS, definitions, strict=True):
            result = await host.call(f"{upstream}.links").result()
            uris = [block["uri"] if "uri" in block else block["resource"]["uri"] for block in result["content"][1:]]
            assert uris == [f"file://{upstream}//notes/a.txt", f"file://{upstream}//not/listed", PAGE]
            kept = [{k: v for k, v in block.items() if k not in ("uri", "resource")} for block in result["content"]]
            assert kept == bare
            view = result["_meta"]["ui"]["resourceUri"]
            assert view == definition["_meta"]["ui"]["resourceUri"] == definition["_meta"]["ui/resourceUri"]
            assert view == f"ui://{upstream}/view/main.html"
            texts = [await text_of(host, uri) for uri in (*uris, view)]
            assert texts == [f"library: {own}" for own in (FILE, "file:///not/listed", PAGE, VIEW)]


async def text_of(host: Host, uri: str) -> Any:
    part = await read(host, uri)
    assert part["uri"] == uri
    return part["text"]


@everywhere
@every_era
async def test_arguments_are_completed(house: House, door: str, version: str) -> None:
    """For prompts by any spelling and for templates; the context goes along, and no more than 100 values come back.

    Proves: F1
    """
    async with house.host(door, version) as host:
        for upstream in UPSTREAMS:
            refs: list[tuple[Json, str]] = [
                ({"type": "ref/prompt", "name": f"{upstream}__greet", "x": 1}, "greet"),
                ({"type": "ref/resource", "uri": f"demo://{upstream}/item/{{id}}"}, ITEM),
                ({"type": "ref/resource", "uri": f"mcp://{upstream}/{DOCS}"}, DOCS),
            ]
            for ref, own in refs:
                argument, context = {"name": "who", "value": "par"}, {"arguments": {"before": "x"}}
                completing = host.ask("completion/complete", {"ref": ref, "argument": argument, "context": context})
                result = check_envelope(await completing.result(), version)
                assert result == {"completion": {"values": [*WORDS, own, "x"], "hasMore": False}}, upstream
            many = {"ref": refs[0][0], "argument": {"name": "who", "value": "many"}}
            completion = (await host.ask("completion/complete", many).result())["completion"]
            assert (len(completion["values"]), completion["total"], completion["hasMore"]) == (100, 150, True)


@every_era
async def test_references_that_lead_nowhere(house: House, version: str) -> None:
    """What cannot be completed is an error, as what cannot be read or got is."""
    async with house.host("http", version) as host:
        for missing in (
            {"type": "ref/prompt", "name": "local_modern.nothing"},
            {"type": "ref/resource", "uri": "demo://nobody/x"},
            {"type": "ref/tool", "name": "x"},
            {"type": "ref/prompt"},
            "greet",
        ):
            error = await host.ask("completion/complete", {"ref": missing, "argument": {"name": "a"}}).error()
            unknown = isinstance(missing, dict) and missing["type"] == "ref/resource"
            assert error["code"] == (-32002 if unknown and not host.modern else -32602)
