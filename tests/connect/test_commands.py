"""`aggregator connect` and `aggregator connections` against a real authorization server, as a newcomer runs them."""

import asyncio
import html
import json
import os
import re
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from aggregator.accounts.cli.owners import server_to_connect
from aggregator.config.load import load
from aggregator.domain.errors import OperatorError
from tests.authorization.authorization_server import AuthorizationServer, authorization_server
from tests.authorization.protected_mcp_server import protected_mcp_server


@dataclass
class Laptop:
    """A configuration with one server that asks for a login, and a home of its own."""

    folder: Path
    idp: AuthorizationServer

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "aggregator", *words, "--config", str(self.folder / "aggregator.json")]

    @property
    def opened(self) -> Path:
        """The file with the address that the browser was started with."""
        return self.folder / "opened"

    def environment(self) -> dict[str, str]:
        """Return variables with a display, and with the browser of this laptop as the only one."""
        home = {name: str(self.folder) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")}
        window = {"DISPLAY": ":0", "BROWSER": f"{self.folder / 'browser'} %s", "PATH": ""}
        return {**os.environ, **home, **window}

    def install_browser(self, code: int) -> None:
        """Install the browser: a program that notes its address and ends with this exit code."""
        browser = self.folder / "browser"
        browser.write_text(f'#!/bin/sh\nprintf %s "$1" > "{self.opened}"\nexit {code}\n')
        browser.chmod(0o700)

    def configure(self, **auth: str) -> None:
        """Leave one server, with this `auth`."""
        path = self.folder / "aggregator.json"
        config = json.loads(path.read_text())
        config["mcpServers"] = {"wiki": {**config["mcpServers"]["wiki"], "auth": auth}}
        path.write_text(json.dumps(config))

    async def start(self, *words: str, **variables: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self.command(*words), stdin=-1, stdout=-1, stderr=-1, env=self.environment() | variables, cwd=self.folder
        )

    async def run(self, *words: str) -> tuple[int | None, str, str]:
        process = await self.start(*words)
        out, err = await process.communicate()
        return process.returncode, out.decode(), err.decode()


@pytest.fixture
async def laptop(tmp_path: Path) -> AsyncIterator[Laptop]:
    async with authorization_server() as idp, protected_mcp_server(idp) as server:
        entry = {"url": server.url, "auth": {"per": "shared"}}
        config: dict[str, Any] = {"mcpServers": {"wiki": entry, "plain": {"url": server.url}}}
        config["storage"] = f"sqlite+aiosqlite:///{tmp_path / 'store.db'}"
        (tmp_path / "aggregator.json").write_text(json.dumps(config))
        laptop = Laptop(tmp_path, idp)
        laptop.install_browser(0)
        yield laptop


async def test_newcomer_connects_lists_and_revokes(laptop: Laptop) -> None:
    process = await laptop.start("connect", "wiki", "--no-browser")
    assert process.stdout is not None
    link = (await process.stdout.readline()).decode().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/connect/\S{32,}", link)
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        assert "wiki" in (await browser.get(link)).text
        leave = await browser.post(link, headers={"sec-fetch-site": "same-origin"})
        found = re.search(r'0;url=([^"]+)', leave.text)
        assert found is not None, leave.text
        back = await browser.get(html.unescape(found[1]))
    assert "is connected" in back.text
    out, err = await process.communicate()
    assert (process.returncode, out.decode()) == (0, "The account of all agents at wiki is connected.\n")
    assert "Open it in a browser on this machine" in err.decode()
    assert not laptop.opened.exists()
    status, listed, _ = await laptop.run("connections", "list", "--json")
    accounts = json.loads(listed)
    assert [(one["server"], one["state"]) for one in accounts] == [("wiki", "connected")]
    assert not any(token in listed for token in laptop.idp.access)
    status, said, _ = await laptop.run("connections", "revoke", "wiki")
    assert (status, said) == (0, "wiki of all agents: revoked.\n")
    with closing(sqlite3.connect(laptop.folder / "store.db")) as database:
        told = [json.loads(row[0])["what"] for row in database.execute("SELECT details FROM audit_events ORDER BY at")]
    assert told == ["connected", "revoked"]


@pytest.mark.parametrize(
    ("code", "variables", "opens", "said"),
    [
        (0, {}, True, "It opens in your browser."),
        (1, {"DISPLAY": "", "WAYLAND_DISPLAY": "wayland-0"}, True, "Open it in a browser on this machine"),
        (0, {"DISPLAY": "", "WAYLAND_DISPLAY": ""}, False, "Open it in a browser on this machine"),
    ],
    ids=["opens", "fails", "no-display"],
)
async def test_the_browser_of_this_machine(
    laptop: Laptop, code: int, variables: dict[str, str], opens: bool, said: str
) -> None:
    """The command says that the browser opens only if it did; the link is printed anyway."""
    laptop.install_browser(code)
    process = await laptop.start("connect", "wiki", **variables)
    assert process.stdout is not None
    assert process.stderr is not None
    link = (await process.stdout.readline()).decode().strip()
    while "good once" not in (told := (await process.stderr.readline()).decode()):
        assert told, "it says nothing more"
    process.kill()
    await process.communicate()
    assert told.startswith(said)
    assert (laptop.opened.read_text() if laptop.opened.exists() else None) == (link if opens else None)


async def test_answer_is_pasted_from_another_machine(laptop: Laptop) -> None:
    process = await laptop.start("connect", "wiki", "--paste")
    assert process.stdout is not None
    away = (await process.stdout.readline()).decode().strip()
    async with httpx2.AsyncClient() as elsewhere:
        ended = (await elsewhere.get(away)).headers["location"]
    out, err = await process.communicate(f"nonsense\n{ended}\n".encode())
    assert (process.returncode, "is connected" in out.decode()) == (0, True)
    assert "no such address" in err.decode()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("connect", "nowhere"), "There is no server 'nowhere'"),
        (("connect", "plain"), "has no `auth`"),
        (("connect", "wiki", "--agent", "a"), "one account for all agents"),
        (("connections", "revoke", "wiki"), "No such account"),
    ],
)
async def test_mistakes_are_named(laptop: Laptop, words: tuple[str, ...], said: str) -> None:
    status, out, err = await laptop.run(*words)
    assert (status, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize(("auth", "known"), [({"auth": {"per": "shared"}}, "wiki"), ({}, "none with `auth`")])
def test_a_server_that_is_not_there(tmp_path: Path, auth: dict[str, Any], known: str) -> None:
    """The servers that can be connected are named."""
    path = tmp_path / "aggregator.json"
    address = {"url": "https://wiki.example/mcp"}
    path.write_text(json.dumps({"mcpServers": {"wiki": {**address, **auth}, "plain": address}}))
    with pytest.raises(OperatorError, match=re.escape(f"in the configuration; there is: {known}.")):
        server_to_connect(load(path, {}), "wikki")
