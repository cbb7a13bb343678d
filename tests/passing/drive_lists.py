"""What servers offer: lists, what is read, got and completed, and what a host hears of changes."""

import asyncio
from collections.abc import Sequence
from itertools import product
from typing import Any, Final

from aggregator.domain.uris.exposed import aliased, wrapped
from aggregator.domain.uris.links import in_meta
from tests.journeys.hosts import META, Host
from tests.passing.everything import Everything
from tests.passing.shelves import LISTS, UPSTREAMS, hearing, listed, read, told, updates
from tests.passing.stage import At, drive, drive_all, instead
from tests.passing.table import MODERN
from tests.peers.library import BOOK, FILE, ITEM, LINKS, PAGE, VENDOR, VIEW, WORDS
from tests.peers.toolbox import Json

_OFFERED: Final = Everything().lists
_HIDDEN: Final = ("task", "app")
# Of what is added here: what is always there is another matter.
_GROWN: Final = "grown-"
_FIRST: Final = next(iter(UPSTREAMS))
_SPARED: Final = ("resultType", "ttlMs", "cacheScope", "_meta")


def exposed(at: At, uri: str) -> str:
    """A server's URI as hosts see it: an `https:` one belongs to the first that has it."""
    shared = uri.startswith("https:") and at.upstream != _FIRST
    return aliased(at.upstream, uri) if shared else wrapped(at.upstream, uri)


def own(result: Json) -> Json:
    """What a result says besides its envelope."""
    return {key: value for key, value in result.items() if key not in _SPARED}


# -- lists


@drive_all
async def tools_list(cells: Sequence[At]) -> None:
    found = [one for one in await cells[0].host.list() if _GROWN not in one["name"]]
    assert found == [
        in_meta(at.upstream, {**one, "name": f"{at.upstream}{at.by}{one['name']}"})
        for at in cells
        for one in _OFFERED["tools"]
        if one["name"] not in _HIDDEN
    ]


@drive_all
async def resources_list(cells: Sequence[At]) -> None:
    await _in_order(cells, "resources/list", "uri")


@drive_all
async def templates_list(cells: Sequence[At]) -> None:
    await _in_order(cells, "resources/templates/list", "uriTemplate")
    for at in cells:
        assert (await read(at.host, exposed(at, ITEM.replace("{id}", "7"))))["text"] == "library: demo://item/7"


async def _in_order(cells: Sequence[At], method: str, by: str) -> None:
    found = [one for one in await listed(cells[0].host, method) if _GROWN not in one[by]]
    assert found == [{**one, by: exposed(at, one[by])} for at in cells for one in _OFFERED[LISTS[method]]]


@drive_all
async def prompts_list(cells: Sequence[At]) -> None:
    host, offered = cells[0].host, _OFFERED["prompts"]
    found = [one for one in await listed(host, "prompts/list") if _GROWN not in one["name"]]
    names = [one.pop("name") for one in found]
    assert found == [{key: value for key, value in one.items() if key != "name"} for one in offered] * len(cells)
    for name, (at, theirs) in zip(names, product(cells, offered), strict=True):
        # A dot of its own cannot be listed everywhere; the name it gets instead leads to it all the same.
        assert name == f"{at.upstream}{at.by}{theirs['name']}" or "." in theirs["name"]
        if "." in theirs["name"]:
            assert (await host.ask("prompts/get", {"name": name}).result())["description"] == theirs["name"]


# -- changes


async def _grows(cells: Sequence[At], told_as: str, **methods: str) -> None:
    """One more of each of these kinds everywhere: told, and then listed."""
    host, changed = cells[0].host, f"notifications/{told_as}/list_changed"
    name = f"{_GROWN}{cells[0].cell.door}-{host.version}"
    async with hearing(host, **{f"{told_as}ListChanged": True}) as acknowledged:
        assert acknowledged == {f"{told_as}ListChanged": True}
        heard = sum(one.get("method") == changed for one in host.inbox.messages)
        await asyncio.gather(*(at.did("add", kind=kind, name=name) for kind, at in product(methods, cells)))
        missing = [(kind, at.upstream) for kind, at in product(methods, cells)]
        while missing:
            # Who lists before it is told has no need to be.
            heard += 1
            await host.inbox.named(changed, heard)
            there = {kind: await _named(host, method, name) for kind, method in methods.items()}
            missing = [(kind, upstream) for kind, upstream in missing if not any(upstream in s for s in there[kind])]
        names = {kind: f"file:///{name}/{{x}}" if kind == "template" else name for kind in methods}
        await asyncio.gather(*(at.did("drop", kind=kind, name=names[kind]) for kind, at in product(methods, cells)))


async def _named(host: Host, method: str, name: str) -> list[str]:
    found = await (host.list() if method == "tools/list" else listed(host, method))
    names = (str(one.get("uri") or one.get("uriTemplate") or one["name"]) for one in found)
    return [one for one in names if name in one]


@drive_all
async def tools_changed(cells: Sequence[At]) -> None:
    await _grows(cells, "tools", tool="tools/list")


@drive_all
async def resources_changed(cells: Sequence[At]) -> None:
    await _grows(cells, "resources", resource="resources/list", template="resources/templates/list")


@drive_all
async def prompts_changed(cells: Sequence[At]) -> None:
    await _grows(cells, "prompts", prompt="prompts/list")


@drive_all
async def resources_updated(cells: Sequence[At]) -> None:
    host, uris = cells[0].host, [wrapped(at.upstream, FILE) for at in cells]
    before = len(updates(host))
    async with hearing(host, resourceSubscriptions=uris) as honoured:
        assert honoured == {"resourceSubscriptions": uris}
        await asyncio.gather(*(at.did("touch", uri=theirs) for at, theirs in product(cells, (VIEW, FILE))))
        for uri in uris:
            await told(host, uri)
        assert set(updates(host)[before:]) == set(uris)
        if not host.modern:
            for uri in uris:
                assert await host.ask("resources/unsubscribe", {"uri": uri}).result() == {}


# -- what is read, got and completed


@drive
async def resources_read(at: At) -> None:
    for uri in (FILE, PAGE, BOOK):
        asked = exposed(at, uri)
        first = {"uri": asked, "mimeType": "text/plain", "text": f"library: {uri}", **VENDOR}
        more = [{"uri": f"{asked}/part", "blob": "AA=="}] if uri == FILE else []
        result = await at.host.ask("resources/read", {"uri": asked}).result()
        assert own(result) == {"contents": [first, *more], "x-vendor-result": "kept"}


@drive
async def resources_missing(at: At) -> None:
    uri = f"file://{at.upstream}//nothing"
    error = await at.host.ask("resources/read", {"uri": uri}).error()
    assert error["code"] == (-32602 if at.host.modern else -32002)
    assert error["data"] == {"uri": uri, "com.example/hint": 1}


@drive
async def links(at: At) -> None:
    result = await at.did("links")
    expected = [exposed(at, FILE), wrapped(at.upstream, "file:///not/listed"), exposed(at, PAGE)]
    assert [block.get("uri") or block["resource"]["uri"] for block in result["content"][1:]] == expected
    bare = [{key: value for key, value in block.items() if key not in ("uri", "resource")} for block in LINKS]
    assert [{k: v for k, v in block.items() if k not in ("uri", "resource")} for block in result["content"]] == bare
    assert (await read(at.host, expected[1]))["text"] == "library: file:///not/listed"


@drive
async def prompts_get(at: At) -> None:
    for by in ("__", "/"):
        asked = {"name": f"{at.upstream}{by}greet", "arguments": {"who": "知"}, "_meta": {"com.example/x": 1}}
        result = await at.host.ask("prompts/get", asked).result()
        assert result["messages"][0]["content"]["text"] == 'library greets {"who": "\\u77e5"}'
        assert result["x-vendor-result"] == "kept"
    asked = {"name": f"{at.upstream}.embed", "arguments": {"uri": "file:///x"}}
    embedded = await at.host.ask("prompts/get", asked).result()
    assert [message["content"] for message in embedded["messages"]] == [
        {"type": "resource", "resource": {"uri": f"file://{at.upstream}//x", "text": "inside"}},
        {**LINKS[1], "uri": f"file://{at.upstream}//notes/a.txt"},
    ]
    error = await at.host.ask("prompts/get", {"name": f"{at.upstream}.grete"}).error()
    assert (error["code"], error["data"]["nearest"][0]) == (-32602, f"{at.upstream}{at.by}greet")


@drive
async def completion(at: At) -> None:
    refs: list[tuple[Json, str]] = [
        ({"type": "ref/prompt", "name": f"{at.upstream}__greet", "x": 1}, "greet"),
        ({"type": "ref/resource", "uri": f"demo://{at.upstream}/item/{{id}}"}, ITEM),
    ]
    for ref, theirs in refs:
        given = {"argument": {"name": "who", "value": "par"}, "context": {"arguments": {"before": "x"}}}
        result = await at.host.ask("completion/complete", {"ref": ref, **given}).result()
        assert own(result) == {"completion": {"values": [*WORDS, theirs, "x"], "hasMore": False}}
    many = {"ref": refs[0][0], "argument": {"name": "who", "value": "many"}}
    found = (await at.host.ask("completion/complete", many).result())["completion"]
    assert (len(found["values"]), found["total"], found["hasMore"]) == (100, 150, True)


# -- how long it holds, and who says so


@drive_all
async def caching(cells: Sequence[At]) -> None:
    for at in cells:
        result = await at.host.ask("resources/read", {"uri": wrapped(at.upstream, FILE)}).result()
        told_so = at.cell.server == MODERN
        hints = {"ttlMs": 60_000, "cacheScope": "public"} if told_so else {"ttlMs": 0, "cacheScope": "private"}
        assert {key: result[key] for key in hints} == hints
    for method in ("tools/list", *LISTS):
        # Of all servers together: some say nothing of their lists.
        page = await cells[0].host.ask(method).result()
        assert page["cacheScope"] == "private"
        assert page["ttlMs"] >= 0


@instead("caching")
async def no_hints(at: At) -> None:
    for method, params in (("tools/list", {}), ("resources/read", {"uri": wrapped(at.upstream, FILE)})):
        assert not {"ttlMs", "cacheScope"} & (await at.host.ask(method, params).result()).keys()


@drive
async def instructions(at: At) -> None:
    assert f"- {at.upstream}: The library keeps notes." in at.host.greeting["instructions"]
    whole = await at.host.call("list_servers", {"server": at.upstream}).result()
    assert whole["content"][0]["text"].endswith("The library keeps notes. Ask it for a.txt first.")


@drive
async def envelope(at: At) -> None:
    requests: list[tuple[str, Json]] = [
        ("tools/call", {"name": f"{at.upstream}.links"}),
        ("resources/read", {"uri": wrapped(at.upstream, FILE)}),
        ("prompts/get", {"name": f"{at.upstream}.greet"}),
    ]
    for method, params in requests:
        result = await at.host.ask(method, params).result()
        who: Any = result.get("_meta", {}).get(f"{META}serverInfo")
        assert result.get("resultType") == ("complete" if at.host.modern else None)
        assert (who is not None and who["name"] == "aggregator") is at.host.modern


# -- what Apps are made of


@drive_all
async def apps(cells: Sequence[At]) -> None:
    tools = {one["name"]: one for one in await cells[0].host.list()}
    for at in cells:
        view = wrapped(at.upstream, VIEW)
        assert view.startswith("ui://")
        named = tools[f"{at.upstream}{at.by}links"]["_meta"]
        assert named == {"ui": {"resourceUri": view}, "ui/resourceUri": view}
        assert (await at.did("links"))["_meta"]["ui"]["resourceUri"] == view
        assert (await read(at.host, view))["text"] == f"library: {VIEW}"

        assert f"{at.upstream}{at.by}app" not in tools
        assert (await at.did("app"))["content"][0]["text"] == "library did app"
        through = await at.host.call("call_tool", {"name": f"{at.upstream}.app", "arguments": {}}).result()
        assert through["_meta"]["aggregator/error"]["code"] == "unknown_tool"
        described = await at.host.call("describe_tools", {"names": [f"{at.upstream}.app"]}).result()
        assert '"missing"' in described["content"][0]["text"]
        found = await at.host.call("search_tools", {"query": "app alone", "server": at.upstream}).result()
        assert f"{at.upstream}.app" not in found["content"][0]["text"]


@instead("apps_declared")
async def no_extensions(at: At) -> None:
    assert not {"extensions", "experimental"} & at.host.greeting["capabilities"].keys()
    received = (await at.did("echo"))["structuredContent"]["received"]
    assert "extensions" not in received.get("_meta", {}).get(f"{META}clientCapabilities", {})


@instead("tasks")
async def no_tasks(at: At) -> None:
    assert "tasks" not in at.host.greeting["capabilities"]
    assert (await at.call("task").error())["code"] == -32602
    assert (await at.did("unasked"))["_meta"]["aggregator/error"]["code"] == "upstream_bad_answer"
    asked = {"name": f"{at.upstream}.echo", "arguments": {}, "task": {"ttl": 1}}
    received = (await at.host.ask("tools/call", asked).result())["structuredContent"]["received"]
    assert "task" not in received
