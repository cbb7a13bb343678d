"""`aggregator connect`: a user agrees in their browser, and the account is connected.

The link leads to a listener of this command on this machine (RFC 8252), so that it needs no running gateway.
"""

import asyncio
import os
import socket
import sys
import time
import webbrowser
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from aggregator.accounts.app.open_grants import open_grants
from aggregator.accounts.cli.owners import owner_to_connect, principal_of, server_to_connect
from aggregator.accounts.connect.browser_cookie import new_browser
from aggregator.accounts.connect.on_demand import HOST, PagesOnDemand
from aggregator.accounts.connect.parts import CALLBACK
from aggregator.accounts.grants.errors import ConnectFailed
from aggregator.accounts.grants.grants import Grants
from aggregator.accounts.grants.values import ConnectOutcome
from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.setup import load_config
from aggregator.cli.runtime.tables import one_line
from aggregator.cli.runtime.writer import say
from aggregator.config.load import Loaded
from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import OperatorError
from aggregator.domain.grant_owner import GATEWAY, GrantOwner
from aggregator.domain.principal import Principal

_TRIES: Final = 3


def run(path: Path | None, server: str, agent: str | None, browser: bool, paste: bool, device: bool) -> int:
    """Connect an account and say in one line what became of it; return 0 if it is connected.

    Raises:
        OperatorError: there is no such server, or there is no way to connect it now.
    """
    if paste and device:
        raise OperatorError("Give one of --paste and --device.")
    loaded = load_config(path, log_level="warning", report=False)
    config = server_to_connect(loaded, server)
    principal = principal_of(loaded, agent)
    owner = owner_to_connect(config, agent, principal)
    by = "device" if device else "paste" if paste else "browser" if browser else "link"
    outcome = run_loop(_connect(loaded, config, owner, principal, by))
    said = one_line(outcome.said)
    say(said, file=sys.stdout if outcome.connected else sys.stderr)
    if outcome.connected and owner == GATEWAY:
        say(
            f"Its tools are listed with this account. Calls are made with the account of each {_who(config)}: the "
            f"first call says how to connect it, and so does `aggregator connect {config.id} --agent AGENT`.",
            file=sys.stderr,
        )
    return 0 if outcome.connected else 1


def _who(server: ServerConfig) -> str:
    return "person" if server.auth is not None and server.auth.per == "user" else "agent"


async def _connect(
    loaded: Loaded, server: ServerConfig, owner: GrantOwner, principal: Principal, by: str
) -> ConnectOutcome:
    async with open_grants(loaded) as grants:
        try:
            if by == "device":
                return await _by_device(grants, server, owner, principal)
            if by == "paste":
                return await _by_paste(grants, server, owner, principal)
            return await _by_browser(grants, server, owner, principal, opens=by == "browser")
        except ConnectFailed as failed:
            return ConnectOutcome(False, failed.reason, server.id, owner)


async def _by_browser(
    grants: Grants, server: ServerConfig, owner: GrantOwner, principal: Principal, *, opens: bool
) -> ConnectOutcome:
    """Wait for the browser to come back to the listener of this command."""
    ended: asyncio.Future[ConnectOutcome] = asyncio.get_running_loop().create_future()

    def seen(outcome: ConnectOutcome, /) -> None:
        # One without a server is about the only link of this listener.
        if outcome.server in (server.id, None) and not ended.done():
            ended.set_result(outcome)

    pages = PagesOnDemand(grants, seen)
    grants.base = pages
    async with pages.running():
        link = await grants.begin(server, owner, principal)
        if link.url is None:
            raise OperatorError(f"No port of {HOST} can be opened. Try --paste.")
        say(link.url, flush=True)
        opened = opens and _has_display() and await asyncio.to_thread(webbrowser.open, link.url)
        say(
            ("It opens in your browser. " if opened else "Open it in a browser on this machine; on another: --paste. ")
            + f"It is good once, for {_minutes(link.expires)}.",
            file=sys.stderr,
        )
        async with Tasks("the connect command") as tasks:
            elsewhere = tasks.start(_connected_elsewhere(grants, server, owner, link.expires))
            await asyncio.wait({ended, elsewhere}, return_when=asyncio.FIRST_COMPLETED)
            return ended.result() if ended.done() else await elsewhere


async def _connected_elsewhere(
    grants: Grants, server: ServerConfig, owner: GrantOwner, expires: float
) -> ConnectOutcome:
    """Return when another process has connected the account, or when the link has ended.

    An existing account is replaced here; its renewal by another process does not count.
    """
    there = any((one.server, one.state) == (server.id, "connected") for one in await grants.list(owner))
    left = max(0.0, expires - time.time())
    if there:
        await asyncio.sleep(left)
    elif await grants.wait(owner, server, left):
        return ConnectOutcome(True, f"The account of {owner} at {server.id} is connected.", server.id, owner)
    return ConnectOutcome(False, f"Not connected: no answer came in time for {server.id}.", server.id, owner)


async def _by_paste(grants: Grants, server: ServerConfig, owner: GrantOwner, principal: Principal) -> ConnectOutcome:
    """Read the answer pasted by the user; the browser's final address leads nowhere."""
    with socket.socket() as reserved:
        # Taken, so that no other program on this machine answers there should the browser be here too.
        reserved.bind((HOST, 0))
        link, browser = await grants.begin(server, owner, principal), new_browser()
        redirect = f"http://{HOST}:{reserved.getsockname()[1]}{CALLBACK}"
        say(await grants.start(link.code, redirect, browser), flush=True)
        say(
            f"Open it in any browser, and agree. It ends at a page that does not load ({redirect}?...): paste the "
            f"whole address of that page here, within {_minutes(link.expires)}.",
            file=sys.stderr,
        )
        for _ in range(_TRIES):
            line = await asyncio.to_thread(sys.stdin.readline)
            if not line:
                break
            params = _carried(line)
            if params:
                return await grants.answered(params, browser)
            say("This is no such address: it has `?code=...` or `?error=...` in it.", file=sys.stderr)
    return ConnectOutcome(False, f"Not connected: no address was pasted for {server.id}.", server.id, owner)


def _carried(line: str) -> list[tuple[str, str]]:
    """Return the parameters of a pasted address, empty if it is none."""
    try:
        params = parse_qsl(urlsplit(line.strip()).query, keep_blank_values=True, max_num_fields=50)
    except ValueError:
        return []
    return params if {"code", "error"} & {name for name, _ in params} else []


async def _by_device(grants: Grants, server: ServerConfig, owner: GrantOwner, principal: Principal) -> ConnectOutcome:
    prompt = await grants.begin_device(server, owner, principal)
    say(prompt.verification_uri_complete or prompt.verification_uri, flush=True)
    say(
        f"Open it on any device and enter the code {prompt.user_code}, within {_minutes(prompt.expires)}.",
        file=sys.stderr,
    )
    return await grants.finish_device(prompt.code)


def _minutes(expires: float) -> str:
    minutes = max(1, round((expires - time.time()) / 60))
    return f"{minutes} minutes" if minutes > 1 else "a minute"


def _has_display() -> bool:
    """Return whether a browser would open in a window: one in this terminal is not wanted."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
