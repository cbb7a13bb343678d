"""Drives for lists, reads, prompts, completions and notifications of changes."""

import asyncio
from collections.abc import Sequence
from itertools import product
from typing import Any, Final

from aggregator.domain.uris.exposed import aliased, wrapped
from aggregator.domain.uris.links import in_meta
from tests.end_to_end.scripted_host import META, ScriptedHost
from tests.passthrough.drives import FeatureCase, drive, drive_all, instead
from tests.passthrough.everything import SKILL, SKILL_TEXT, SKILLS, Everything
from tests.passthrough.table import MODERN
from tests.passthrough.upstreams import LISTS, UPSTREAMS, first_update, listed, read, subscribed_to, updates
from tests.peers.library import BOOK, FILE, ITEM, LINKS, PAGE, VENDOR, VIEW, WORDS
from tests.peers.toolbox import Json

_OFFERED: Final = Everything().lists
_HIDDEN: Final = ("task", "app")
# Of what is added here: what is always there is another matter.
_GROWN: Final = "grown-"
_FIRST: Final = next(iter(UPSTREAMS))
_SPARED: Final = ("resultType", "ttlMs", "cacheScope", "_meta")


def exposed(case: FeatureCase, uri: str) -> str:
    """A server's URI as hosts see it: an `https:` one belongs to the first that has it."""
    shared = uri.startswith("https:") and case.upstream != _FIRST
    return aliased(case.upstream, uri) if shared else wrapped(case.upstream, uri)


def own(result: Json) -> Json:
    """Return a result without its envelope."""
    return {key: value for key, value in result.items() if key not in _SPARED}


# -- lists


@drive_all
async def tools_list(cells: Sequence[FeatureCase]) -> None:
    found = [one for one in await cells[0].host.list() if _GROWN not in one["name"]]
    assert found == [
        in_meta(case.upstream, {**one, "name": f"{case.upstream}{case.by}{one['name']}"})
        for case in cells
        for one in _OFFERED["tools"]
        if one["name"] not in _HIDDEN
    ]


@drive_all
async def resources_list(cells: Sequence[FeatureCase]) -> None:
    await _in_order(cells, "resources/list", "uri")


@drive_all
async def templates_list(cells: Sequence[FeatureCase]) -> None:
    await _in_order(cells, "resources/templates/list", "uriTemplate")
    for case in cells:
        assert (await read(case.host, exposed(case, ITEM.replace("{id}", "7"))))["text"] == "library: demo://item/7"


async def _in_order(cells: Sequence[FeatureCase], method: str, by: str) -> None:
    found = [one for one in await listed(cells[0].host, method) if _GROWN not in one[by]]
    assert found == [{**one, by: exposed(case, one[by])} for case in cells for one in _OFFERED[LISTS[method]]]


@drive_all
async def prompts_list(cells: Sequence[FeatureCase]) -> None:
    host, offered = cells[0].host, _OFFERED["prompts"]
    found = [one for one in await listed(host, "prompts/list") if _GROWN not in one["name"]]
    names = [one.pop("name") for one in found]
    assert found == [{key: value for key, value in one.items() if key != "name"} for one in offered] * len(cells)
    for name, (case, theirs) in zip(names, product(cells, offered), strict=True):
        # A dot of its own cannot be listed everywhere; the name it gets instead leads to it all the same.
        assert name == f"{case.upstream}{case.by}{theirs['name']}" or "." in theirs["name"]
        if "." in theirs["name"]:
            assert (await host.ask("prompts/get", {"name": name}).result())["description"] == theirs["name"]


# -- changes


async def _grows(cells: Sequence[FeatureCase], told_as: str, **methods: str) -> None:
    """Add one item of each kind to every server; check that hosts are notified and that it is listed."""
    host, changed = cells[0].host, f"notifications/{told_as}/list_changed"
    name = f"{_GROWN}{cells[0].cell.frontend}-{host.version}"
    async with subscribed_to(host, **{f"{told_as}ListChanged": True}) as acknowledged:
        assert acknowledged == {f"{told_as}ListChanged": True}
        heard = sum(one.get("method") == changed for one in host.inbox.messages)
        await asyncio.gather(*(case.did("add", kind=kind, name=name) for kind, case in product(methods, cells)))
        missing = [(kind, case.upstream) for kind, case in product(methods, cells)]
        while missing:
            # Who lists before it is told has no need to be.
            heard += 1
            await host.inbox.named(changed, heard)
            there = {kind: await _named(host, method, name) for kind, method in methods.items()}
            missing = [(kind, upstream) for kind, upstream in missing if not any(upstream in s for s in there[kind])]
        names = {kind: f"file:///{name}/{{x}}" if kind == "template" else name for kind in methods}
        await asyncio.gather(*(case.did("drop", kind=kind, name=names[kind]) for kind, case in product(methods, cells)))


async def _named(host: ScriptedHost, method: str, name: str) -> list[str]:
    found = await (host.list() if method == "tools/list" else listed(host, method))
    names = (str(one.get("uri") or one.get("uriTemplate") or one["name"]) for one in found)
    return [one for one in names if name in one]


@drive_all
async def tools_changed(cells: Sequence[FeatureCase]) -> None:
    await _grows(cells, "tools", tool="tools/list")


@drive_all
async def resources_changed(cells: Sequence[FeatureCase]) -> None:
    await _grows(cells, "resources", resource="resources/list", template="resources/templates/list")


@drive_all
async def prompts_changed(cells: Sequence[FeatureCase]) -> None:
    await _grows(cells, "prompts", prompt="prompts/list")


@drive_all
async def resources_updated(cells: Sequence[FeatureCase]) -> None:
    host, uris = cells[0].host, [wrapped(case.upstream, FILE) for case in cells]
    before = len(updates(host))
    async with subscribed_to(host, resourceSubscriptions=uris) as honoured:
        assert honoured == {"resourceSubscriptions": uris}
        await asyncio.gather(*(case.did("touch", uri=theirs) for case, theirs in product(cells, (VIEW, FILE))))
        for uri in uris:
            await first_update(host, uri)
        assert set(updates(host)[before:]) == set(uris)
        if not host.modern:
            for uri in uris:
                assert await host.ask("resources/unsubscribe", {"uri": uri}).result() == {}


# -- what is read, got and completed


@drive
async def resources_read(case: FeatureCase) -> None:
    for uri in (FILE, PAGE, BOOK):
        asked = exposed(case, uri)
        first = {"uri": asked, "mimeType": "text/plain", "text": f"library: {uri}", **VENDOR}
        more = [{"uri": f"{asked}/part", "blob": "AA=="}] if uri == FILE else []
        result = await case.host.ask("resources/read", {"uri": asked}).result()
        assert own(result) == {"contents": [first, *more], "x-vendor-result": "kept"}


@drive
async def resources_missing(case: FeatureCase) -> None:
    uri = f"file://{case.upstream}//nothing"
    error = await case.host.ask("resources/read", {"uri": uri}).error()
    assert error["code"] == (-32602 if case.host.modern else -32002)
    assert error["data"] == {"uri": uri, "com.example/hint": 1}


@drive
async def links(case: FeatureCase) -> None:
    result = await case.did("links")
    expected = [exposed(case, FILE), wrapped(case.upstream, "file:///not/listed"), exposed(case, PAGE)]
    assert [block.get("uri") or block["resource"]["uri"] for block in result["content"][1:]] == expected
    bare = [{key: value for key, value in block.items() if key not in ("uri", "resource")} for block in LINKS]
    assert [{k: v for k, v in block.items() if k not in ("uri", "resource")} for block in result["content"]] == bare
    assert (await read(case.host, expected[1]))["text"] == "library: file:///not/listed"


@drive
async def prompts_get(case: FeatureCase) -> None:
    for by in ("__", "/"):
        asked = {"name": f"{case.upstream}{by}greet", "arguments": {"who": "知"}, "_meta": {"com.example/x": 1}}
        result = await case.host.ask("prompts/get", asked).result()
        assert result["messages"][0]["content"]["text"] == 'library greets {"who": "\\u77e5"}'
        assert result["x-vendor-result"] == "kept"
    asked = {"name": f"{case.upstream}.embed", "arguments": {"uri": "file:///x"}}
    embedded = await case.host.ask("prompts/get", asked).result()
    assert [message["content"] for message in embedded["messages"]] == [
        {"type": "resource", "resource": {"uri": f"file://{case.upstream}//x", "text": "inside"}},
        {**LINKS[1], "uri": f"file://{case.upstream}//notes/a.txt"},
    ]
    error = await case.host.ask("prompts/get", {"name": f"{case.upstream}.grete"}).error()
    assert (error["code"], error["data"]["nearest"][0]) == (-32602, f"{case.upstream}{case.by}greet")


@drive
async def completion(case: FeatureCase) -> None:
    refs: list[tuple[Json, str]] = [
        ({"type": "ref/prompt", "name": f"{case.upstream}__greet", "x": 1}, "greet"),
        ({"type": "ref/resource", "uri": f"demo://{case.upstream}/item/{{id}}"}, ITEM),
    ]
    for ref, theirs in refs:
        given = {"argument": {"name": "who", "value": "par"}, "context": {"arguments": {"before": "x"}}}
        result = await case.host.ask("completion/complete", {"ref": ref, **given}).result()
        assert own(result) == {"completion": {"values": [*WORDS, theirs, "x"], "hasMore": False}}
    many = {"ref": refs[0][0], "argument": {"name": "who", "value": "many"}}
    found = (await case.host.ask("completion/complete", many).result())["completion"]
    assert (len(found["values"]), found["total"], found["hasMore"]) == (100, 150, True)


# -- how long it holds, and who says so


@drive_all
async def caching(cells: Sequence[FeatureCase]) -> None:
    for case in cells:
        result = await case.host.ask("resources/read", {"uri": wrapped(case.upstream, FILE)}).result()
        told_so = case.cell.server == MODERN
        hints = {"ttlMs": 60_000, "cacheScope": "public"} if told_so else {"ttlMs": 0, "cacheScope": "private"}
        assert {key: result[key] for key in hints} == hints
    for method in ("tools/list", *LISTS):
        # Of all servers together: some say nothing of their lists.
        page = await cells[0].host.ask(method).result()
        assert page["cacheScope"] == "private"
        assert page["ttlMs"] >= 0


@instead("caching")
async def no_hints(case: FeatureCase) -> None:
    for method, params in (("tools/list", {}), ("resources/read", {"uri": wrapped(case.upstream, FILE)})):
        assert not {"ttlMs", "cacheScope"} & (await case.host.ask(method, params).result()).keys()


@drive
async def instructions(case: FeatureCase) -> None:
    assert f"- {case.upstream}: The library keeps notes." in case.host.greeting["instructions"]
    whole = await case.host.call("list_servers", {"server": case.upstream}).result()
    assert whole["content"][0]["text"].endswith("The library keeps notes. Ask it for a.txt first.")


@drive
async def envelope(case: FeatureCase) -> None:
    requests: list[tuple[str, Json]] = [
        ("tools/call", {"name": f"{case.upstream}.links"}),
        ("resources/read", {"uri": wrapped(case.upstream, FILE)}),
        ("prompts/get", {"name": f"{case.upstream}.greet"}),
    ]
    for method, params in requests:
        result = await case.host.ask(method, params).result()
        who: Any = result.get("_meta", {}).get(f"{META}serverInfo")
        assert result.get("resultType") == ("complete" if case.host.modern else None)
        assert (who is not None and who["name"] == "aggregator") is case.host.modern


# -- what Apps are made of


@drive_all
async def apps(cells: Sequence[FeatureCase]) -> None:
    tools = {one["name"]: one for one in await cells[0].host.list()}
    for case in cells:
        view = wrapped(case.upstream, VIEW)
        assert view.startswith("ui://")
        named = tools[f"{case.upstream}{case.by}links"]["_meta"]
        assert named == {"ui": {"resourceUri": view}, "ui/resourceUri": view}
        assert (await case.did("links"))["_meta"]["ui"]["resourceUri"] == view
        assert (await read(case.host, view))["text"] == f"library: {VIEW}"

        assert f"{case.upstream}{case.by}app" not in tools
        assert (await case.did("app"))["content"][0]["text"] == "library did app"
        through = await case.host.call("call_tool", {"name": f"{case.upstream}.app", "arguments": {}}).result()
        assert through["_meta"]["aggregator/error"]["code"] == "unknown_tool"
        described = await case.host.call("describe_tools", {"names": [f"{case.upstream}.app"]}).result()
        assert '"missing"' in described["content"][0]["text"]
        found = await case.host.call("search_tools", {"query": "app alone", "server": case.upstream}).result()
        assert f"{case.upstream}.app" not in found["content"][0]["text"]


# -- skills


@drive
async def skills(case: FeatureCase) -> None:
    uri, root = wrapped(case.upstream, SKILL["uri"]), wrapped(case.upstream, "skill://team/notes")
    expected = {**SKILL, "uri": uri, "resources": [{**SKILL["resources"][0], "uri": uri}]}
    found = [one for one in (await case.host.ask("skills/list").result())["skills"] if one["uri"] == uri]
    assert found == [expected]
    assert (await case.host.ask("skills/get", {"uri": uri}).result())["skill"] == expected
    assert (await read(case.host, uri))["text"] == SKILL_TEXT
    inside = await case.host.ask("resources/directory/read", {"uri": root}).result()
    assert inside["resources"] == [{"uri": uri, "name": "SKILL.md", **VENDOR}]


@instead("skills")
async def no_skills(case: FeatureCase) -> None:
    uri = wrapped(case.upstream, SKILL["uri"])
    assert uri not in [one["uri"] for one in (await case.host.ask("skills/list").result())["skills"]]
    assert (await case.host.ask("skills/get", {"uri": uri}).error())["code"] == -32602


@instead("apps_declared")
async def no_extensions(case: FeatureCase) -> None:
    declared = case.host.greeting["capabilities"]
    assert "experimental" not in declared
    assert declared["extensions"].keys() == {SKILLS}
    received = (await case.did("echo"))["structuredContent"]["received"]
    assert "extensions" not in received.get("_meta", {}).get(f"{META}clientCapabilities", {})


@instead("tasks")
async def no_tasks(case: FeatureCase) -> None:
    assert "tasks" not in case.host.greeting["capabilities"]
    assert (await case.call("task").error())["code"] == -32602
    assert (await case.did("unasked"))["_meta"]["aggregator/error"]["code"] == "upstream_bad_answer"
    asked = {"name": f"{case.upstream}.echo", "arguments": {}, "task": {"ttl": 1}}
    received = (await case.host.ask("tools/call", asked).result())["structuredContent"]["received"]
    assert "task" not in received
