"""Many calls at once: none waits for another, and a slow upstream delays nobody else's answers."""

import asyncio

import pytest

from tests.end_to_end.conftest import OpenHarness
from tests.end_to_end.scripted_host import VERSIONS
from tests.end_to_end.server_harness import FRONTENDS, ServerHarness, local_entry, raw_stdio_entry

HUNDREDS = 200


@pytest.mark.parametrize(
    ("frontend", "upstream"),
    [
        ("http", "raw_2025"),
        ("stdio", "raw_2026"),
        ("stdio", "http_modern"),
        ("stdio", "http_legacy"),
        ("sse", "sse"),
        ("sse", "local_modern"),
    ],
)
async def test_a_slow_call_in_front_delays_no_quick_one(
    harness: ServerHarness, frontend: str, upstream: str, key: str
) -> None:
    """C8, D11: hundreds over one upstream connection; the one that came first ends last, since it was told to."""
    ended: list[int] = []

    async with harness.host(frontend, VERSIONS[1]) as host:

        async def follow(number: int) -> str:
            result = await host.call(f"{upstream}.echo", {"n": number}).result()
            ended.append(number)
            return str(result["structuredContent"]["received"]["arguments"]["n"])

        slow = host.call(f"{upstream}.hold", {"key": key})
        await host.call(f"{upstream}.witness", {"entry": f"started {key}"}).result()
        answers = await asyncio.gather(*(follow(number) for number in range(HUNDREDS)))
        assert answers == [str(number) for number in range(HUNDREDS)]
        assert len(ended) == HUNDREDS
        assert not slow.done
        await host.call(f"{upstream}.release", {"key": key}).result()
        assert (await slow.result())["content"][0]["text"] == key


@pytest.mark.parametrize("frontend", FRONTENDS)
async def test_hundreds_that_wait_at_once_all_end(harness: ServerHarness, frontend: str, key: str) -> None:
    """C8: no limit in between: all are running upstream at the same time before any may end."""
    count = 100
    async with harness.host(frontend, VERSIONS[2]) as host:
        held = [host.call("raw_2026.hold", {"key": f"{key}-{n}"}) for n in range(count)]
        for n in range(count):
            await host.call("raw_2026.witness", {"entry": f"started {key}-{n}"}).result()
        assert not any(call.done for call in held)
        for n in reversed(range(count)):
            await host.call("raw_2026.release", {"key": f"{key}-{n}"}).result()
        texts = [(await call.result())["content"][0]["text"] for call in held]
    assert texts == [f"{key}-{n}" for n in range(count)]


async def test_an_upstream_that_hangs_delays_nobody(open_harness: OpenHarness) -> None:
    """C1, C4, E4: one that never answers, one that is not there, one with a bad address: the rest is listed."""
    harness = open_harness(
        {
            "good": local_entry(),
            "mute": {"command": "sleep", "args": ["1000"], "limits": {"connect_timeout": 0.3}},
            "missing": {"command": "no-such-program-anywhere"},
            "closed": {"type": "http", "url": "http://127.0.0.1:9/mcp"},
            "other": raw_stdio_entry(),
        }
    )
    async with harness.host("http", VERSIONS[2]) as host:
        servers = {tool["name"].partition(".")[0] for tool in await host.list()}
        assert servers == {"good", "other"}
        for name, word in (("mute", "0.3 s"), ("missing", "not found"), ("closed", "cannot be reached")):
            result = await host.call(f"{name}.anything").result()
            assert result["isError"] is True
            told = result["_meta"]["aggregator/error"]
            assert (told["code"], told["server"]) == ("upstream_unavailable", name)
            assert word in result["content"][0]["text"].lower()


@pytest.mark.parametrize("frontend", FRONTENDS)
async def test_a_crash_in_the_middle_of_a_call_is_told_and_mended(open_harness: OpenHarness, frontend: str) -> None:
    """A7, C11: the running call fails in words, and the next one finds the server started again."""
    harness = open_harness({"box": raw_stdio_entry()})
    async with harness.host(frontend, VERSIONS[2]) as host:
        running = host.call("box.hold", {"key": "k"})
        await host.call("box.witness", {"entry": "started k"}).result()
        await host.call("box.die").message()
        result = await running.result()
        assert result["isError"] is True
        assert result["_meta"]["aggregator/error"]["code"] == "outcome_unknown"
        again = await host.call("box.echo").result()
        assert "isError" not in again
