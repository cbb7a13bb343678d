"""Accounts that are connected from a host over stdio, at another device, and by another process than the one asked."""

import html
import json
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import httpx2
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.connect.test_commands import Laptop
from tests.connect.test_commands import laptop as laptop
from tests.polling import until

SAME = {"sec-fetch-site": "same-origin"}


async def follow(link: str) -> str:
    """Follow a link in a browser to its end, and return the words of the last page."""
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        assert (await browser.get(link)).status_code == 200
        left = await browser.post(link, headers=SAME)
        found = re.search(r'0;url=([^"]+)', left.text)
        assert found is not None, left.text
        return (await browser.get(html.unescape(found[1]))).text


@asynccontextmanager
async def stdio_host(laptop: Laptop) -> AsyncIterator[ClientSession]:
    """Connect the SDK's client to `aggregator stdio`, as a host on this machine starts it."""
    command, environment = laptop.command("stdio"), laptop.environment()
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=environment, cwd=laptop.folder)
    async with stdio_client(parameters) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        yield session


def text_of(result: Any) -> str:
    return " ".join(str(part.text) for part in result.content)


async def test_host_over_stdio_gets_a_link_that_connects(laptop: Laptop) -> None:
    """The listener opens with the first link; the account is there for the next process too."""
    laptop.configure(per="agent")
    paste = await laptop.start("connect", "wiki", "--paste")
    assert paste.stdout is not None
    async with httpx2.AsyncClient() as elsewhere:
        ended = (await elsewhere.get((await paste.stdout.readline()).decode().strip())).headers["location"]
    await paste.communicate(f"{ended}\n".encode())
    assert paste.returncode == 0
    async with stdio_host(laptop) as host:
        asked = await host.call_tool("wiki__whoami", {})
        found = re.search(r"http://127\.0\.0\.1:\d+/connect/[\w-]{32,}", text_of(asked))
        assert asked.is_error, asked
        assert found is not None, asked
        assert "is connected" in await follow(found[0])

        async def works() -> bool:
            return not (await host.call_tool("wiki__whoami", {})).is_error

        await until(works)
    async with stdio_host(laptop) as host:
        told = json.loads(text_of(await host.call_tool("wiki__whoami", {})))
    assert told["sub"] == "alice"


async def test_account_that_another_process_connects_is_connected(laptop: Laptop) -> None:
    waiting = await laptop.start("connect", "wiki", "--no-browser")
    quick = await laptop.start("connect", "wiki", "--no-browser")
    assert waiting.stdout is not None
    assert quick.stdout is not None
    assert (await waiting.stdout.readline()).startswith(b"http://127.0.0.1:")
    assert "is connected" in await follow((await quick.stdout.readline()).decode().strip())
    for process in (waiting, quick):
        out, err = await process.communicate()
        assert (process.returncode, out.decode()) == (0, "The account of all agents at wiki is connected.\n"), err


async def test_code_is_entered_at_another_device(laptop: Laptop) -> None:
    process = await laptop.start("connect", "wiki", "--device")
    assert process.stdout is not None
    page = (await process.stdout.readline()).decode()
    code = page.strip().partition("user_code=")[2]
    assert code
    laptop.idp.agree(code)
    out, err = await process.communicate()
    assert (process.returncode, out.decode()) == (0, "The account of all agents at wiki is connected.\n"), err
    assert code in err.decode()


async def test_link_that_expired_says_how_to_get_another(laptop: Laptop) -> None:
    process = await laptop.start("connect", "wiki", "--no-browser")
    assert process.stdout is not None
    link = (await process.stdout.readline()).decode().strip()
    with closing(sqlite3.connect(laptop.folder / "store.db")) as database, database:
        database.execute("UPDATE oauth_connects SET expires = 1")
    async with httpx2.AsyncClient() as browser:
        page = await browser.get(link)
    process.terminate()
    await process.communicate()
    assert page.status_code == 404
    assert "expired" in page.text
    assert laptop.idp.counts["authorize"] == 0
