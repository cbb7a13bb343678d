"""A receiver of webhooks on a real socket, with answers that a test chooses, and notifiers that send to it."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from aiohttp import web

from aggregator.notify.app import NoticePrograms
from aggregator.notify.config import ReceiverConfig
from aggregator.notify.send.notice import NoticeWriter
from aggregator.notify.send.notifier import Notifier
from aggregator.redaction.redactor import Redactor
from aggregator.upstream.process.reaper_pipe import Reaper

SECRET: Final = "whsec_" + base64.b64encode(bytes(range(32))).decode()


class Received(NamedTuple):
    """One request of a webhook."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Respond = Callable[[Received], Awaitable[web.StreamResponse]]


class HookServer:
    """A web server. `received` are all requests, in order; `answers` are used up first, then each gets a 204."""

    def __init__(self) -> None:
        self.url = ""
        self.received: list[Received] = []
        self.answers: list[Respond | web.Response] = []
        self.released = asyncio.Event()

    async def hang(self, request: Received) -> web.StreamResponse:
        """Answer once the test releases it."""
        await self.released.wait()
        return web.Response(status=204)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        got = Received(request.path, dict(request.headers), await request.read())
        self.received.append(got)
        if not self.answers:
            return web.Response(status=204)
        answer = self.answers.pop(0)
        return answer if isinstance(answer, web.Response) else await answer(got)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["HookServer"]:
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", self._serve)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}"
        try:
            yield self
        finally:
            self.released.set()
            await runner.cleanup()


class Waits:
    """A `PauseFor` that lets no time pass: `asked` are the seconds that were asked for."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    async def __call__(self, seconds: float, /) -> None:
        self.asked.append(seconds)


def receiver(url: str | None, **fields: Any) -> ReceiverConfig:
    return ReceiverConfig.model_validate({"name": "hook", "url": url, **fields})


def build(*receivers: ReceiverConfig, waits: Waits | None = None, reaper: Reaper | None = None) -> Notifier:
    """A notifier as the application makes it, whose waits between attempts take no time if `waits` is given.

    reaper: that of the programs; who runs one gives it, and closes it.
    """
    writer = NoticeWriter(Redactor(["s3cr3t-value"]))
    writer.console = "https://tools.example.com/console"
    pause = waits if waits is not None else asyncio.sleep
    return Notifier(receivers, writer, NoticePrograms(reaper or Reaper()), pause)


def ask(notifier: Notifier, agent: str = "sales", tool: str = "crm.send", id: str = "apr_1") -> None:
    """Have it announced that a call waits."""
    notifier.announce(
        "approval.waiting",
        agent,
        "crm",
        lambda: notifier.writer.approval_waiting(id, agent, tool, "crm", 'confirm "crm.send"', "shop.yaml:9"),
    )


def is_ours(secret: str, got: Received) -> bool:
    """Verify a signature as a receiver does, from the text of Standard Webhooks and nothing of the package."""
    headers = {name.lower(): value for name, value in got.headers.items()}
    key = base64.b64decode(secret[len("whsec_") :])
    content = headers["webhook-id"].encode() + b"." + headers["webhook-timestamp"].encode() + b"." + got.body
    expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return headers["webhook-signature"].split(" ") == [f"v1,{expected}"]
