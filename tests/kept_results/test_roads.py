"""Where `results.max_tokens` counts: on the roads of models, and not for tools that a host calls by their own names.

A result of 1 MB goes by every road, in both eras, in the pipeline and without a task.
"""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.bounds.web_harness import RawConnection
from tests.direct.direct_harness import (
    DIRECT,
    HOST_KINDS,
    PIPELINE,
    TAKEN_OVER,
    CallingHost,
    DirectHarness,
    ask,
    direct_harness,
    result,
    take_time,
)
from tests.kept_results.conftest import HANDLE, ITEMS, OpenLarge, handle_of, text_block
from tests.peers.toolbox import Json
from tests.policy.build import book

FILL: Final = 1_000_000
WHOLE: Final = "x" * FILL
END: Final = "the very end"
LIMITED: Final = {"result_tokens": 500}


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no call become a slow one on a busy machine."""
    take_time(monkeypatch)


class Kind(NamedTuple):
    """A large result: its tool, and what the server says, with `$FILL` for the large part."""

    tool: str
    said: Json


def block(**more: Any) -> Json:
    return {"type": "text", "text": f"$FILL {END}", **more}


STRUCTURED: Final[Json] = {"n": 1, "text": f"$FILL {END}"}
RESOURCE: Final[Json] = {"uri": "file:///a", "text": f"$FILL {END}"}
KINDS: Final[dict[str, Kind]] = {
    "text": Kind("any", {"content": [block()]}),
    "texts and an image": Kind(
        "any", {"content": [{"type": "text", "text": "a"}, {"type": "image", "data": "", "mimeType": "x"}, block()]}
    ),
    "text for the user": Kind("any", {"content": [block(annotations={"audience": ["user"]})]}),
    "a resource": Kind("any", {"content": [{"type": "resource", "resource": RESOURCE}]}),
    "a structured result": Kind("any", {"content": [], "structuredContent": STRUCTURED}),
    "a structured result that was promised": Kind(
        "typed", {"content": [{"type": "text", "text": "a"}], "structuredContent": STRUCTURED}
    ),
}


def filled(value: Any) -> Any:
    """Return what the server says, with the large part."""
    if isinstance(value, str):
        return value.replace("$FILL", WHOLE)
    if isinstance(value, list):
        return [filled(one) for one in value]
    return {name: filled(one) for name, one in value.items()} if isinstance(value, dict) else value


def arguments_of(kind: Kind) -> Json:
    return {"n": 1, "fill": FILL, "writes": [result(**kind.said)]}


def policies(**more: Any) -> Json:
    return {"agents": {"local": {"allow": ["*"], "read_only": ["*"], "expose": "code", **more}}}


async def called(host: CallingHost, name: str, arguments: Json) -> Json:
    answer = (await ask(host, {"name": name, "arguments": arguments})).answer
    made: Json = answer["result"]
    return made


async def by_program(host: CallingHost, name: str, arguments: Json) -> Json:
    """Call a tool in a program that returns all that it got."""
    return await called(host, "run_code", {"code": f"call_tool({name!r}, {arguments!r})"})


async def over_v1(it: DirectHarness, name: str, arguments: Json) -> str:
    """Call a tool over `/v1` and return the text of its message."""
    body = {"tool_call": {"name": name, "arguments": arguments}}
    async with RawConnection(it.port) as connection:
        return str(json.loads((await connection.ask("/v1/tool_calls", body)).body)["content"])


def whole_of(made: Json) -> Json:
    """Return a result without what the aggregator adds to it."""
    return {key: made[key] for key in ("content", "structuredContent") if key in made}


Read = Callable[[Json], Awaitable[str]]


async def ends_by_a_handle(text: str, read: Read) -> None:
    """Check that little is shown, and that its handle leads to the end of the result."""
    assert len(text) < FILL / 20
    (handle,) = set(HANDLE.findall(text))
    assert END not in text
    assert END in await read({"handle": handle, "grep": END})


@pytest.mark.parametrize("kind", HOST_KINDS, ids="-".join)
@pytest.mark.parametrize("server", ["old", "new"])
async def test_a_large_result_by_every_road(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str], server: str
) -> None:
    """C10: whole where a host calls a tool by its name; in part, with a way to the rest, where a model reads."""
    database = f"sqlite+aiosqlite:///{tmp_path}/kept.db"
    more: Json = {"policies": tmp_path / "policies", "database": database, "read_tool": True}
    async with direct_harness(tmp_path, monkeypatch, **more) as it:
        assert it.app.live is not None
        it.app.live.rulebook = book(policies())
        async with it.host(*kind) as host:

            async def read(given: Json) -> str:
                return json.dumps(await called(host, "read_result", given))

            async def read_over_v1(given: Json) -> str:
                return await over_v1(it, "read_result", given)

            await ask(host, {"name": f"{server}.any", "arguments": {}})
            for name, large in KINDS.items():
                tool, arguments = f"{server}.{large.tool}", arguments_of(large)
                for on, ways in ((False, {PIPELINE}), (True, {DIRECT, TAKEN_OVER})):
                    it.on = on
                    await ask(host, {"name": tool, "arguments": {"writes": [result(content=[])]}})
                    made = await called(host, tool, arguments)
                    assert it.way in ways, (name, it.way)
                    # Only URIs are changed: they lead back to the server.
                    expected = json.dumps(filled(large.said)).replace("file:///a", f"file://{server}//a")
                    assert whole_of(made) == json.loads(expected), name
                    assert "aggregator/shortened" not in made.get("_meta", {}), name
                for meta_tool in ("call_tool", "read_tool"):
                    made = await called(host, meta_tool, {"name": tool, "arguments": arguments})
                    await ends_by_a_handle(json.dumps(made), read)
                made = await by_program(host, tool, arguments)
                await ends_by_a_handle(json.dumps(made), read)
                await ends_by_a_handle(await over_v1(it, tool, arguments), read_over_v1)
            # A policy says otherwise.
            it.app.live.rulebook = book(policies(limits={"*": LIMITED}))
            made = await called(host, f"{server}.any", arguments_of(KINDS["text"]))
            await ends_by_a_handle(json.dumps(made), read)


@pytest.mark.parametrize("expose", ["all", "auto", "search", "code"])
@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("most", [0, 10_000])
async def test_the_tool_to_read_on_is_listed_if_results_may_be_cut(
    open_large: OpenLarge, expose: str, direct: bool, most: int
) -> None:
    """For the agent that asks: rules for another agent make no difference."""
    agents = {"one": {"allow": ["*"], "limits": {"shop.*": LIMITED}}, "two": {"allow": ["*"]}}
    settings = {"expose": expose, "results": {"direct": direct, "max_tokens": most}}
    async with open_large({"agents": agents}, **settings) as harness:
        short = expose in ("search", "code")
        for agent, expected in (("one", True), ("two", most > 0 and (direct or short))):
            listed = [one["name"] for one in await harness.listed(harness.host(agent))]
            assert ("read_result" in listed) is expected, agent


async def test_a_reload_changes_who_reads_on(open_large: OpenLarge) -> None:
    async with open_large(expose="all", results={"direct": False}) as harness:
        host, config = harness.host("local"), harness.app.config
        for direct in (True, False):
            harness.app.gateway.reconfigure(
                config.model_copy(update={"results": config.results.model_copy(update={"direct": direct})})
            )
            cut = "aggregator/shortened" in (await harness.result(host, "shop.orders")).get("_meta", {})
            listed = [one["name"] for one in await harness.listed(host)]
            assert (cut, "read_result" in listed) == (direct, direct)


@pytest.mark.parametrize("structured", [True, False])
async def test_an_outline_comes_before_a_beginning_that_says_little(open_large: OpenLarge, structured: bool) -> None:
    """And its paths lead to what it names."""
    value = {"note": "many words " * 9_000, "data": {"items": ITEMS}}
    async with open_large(results={}) as harness:
        host = harness.host("local")
        text = {"content": [text_block(json.dumps(value))]}
        harness.answer_with(**({"content": [], "structuredContent": value} if structured else text))
        made = await harness.result(host, "call_tool", {"name": "shop.orders"})
        lines = made["content"][0]["text"].splitlines()
        assert lines[0] == "[Outline:"
        assert "data.items: 3,000 items {id, name}" in lines
        assert made["content"][1]["text"].startswith('{"note":')
        handle = handle_of(made)
        for asked in ({"handle": handle}, {"id": handle}):
            page = await harness.result(host, "read_result", {**asked, "path": "data.items[2999].name"})
            assert page["content"][0]["text"].startswith(str(ITEMS[2999]["name"]))
        counted = await harness.result(host, "read_result", {"id": handle, "pattern": "Order 299", "count": "true"})
        assert counted["content"][0]["text"] == "[11 matches; searched to the end.]"
        chosen = {"id": handle, "path": "data.items", "fields": "id", "filter": {"id": ["2998", 2999]}}
        rows = (await harness.result(host, "read_result", chosen))["content"][0]["text"]
        assert rows.splitlines() == ["id", "2998", "2999", "[Characters 0 to 12 of 12: the end. 2 of 3,000 rows.]"]
        wrong = await harness.result(host, "read_result", {**chosen, "fields": "title"})
        assert wrong["isError"]
        assert "There is no column `title`. The columns are `id`, `name`." in wrong["content"][0]["text"]
        cased = {"handle": handle, "grep": "Order 2999", "case": True, "context": "2"}
        assert "Nothing found" in (await harness.result(host, "read_result", cased))["content"][0]["text"]
