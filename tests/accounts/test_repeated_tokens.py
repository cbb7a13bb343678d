"""A server that repeats the credentials of an account, in every encoding: no sink has them, old or new."""

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.domain.grant_owner import SHARED
from aggregator.frontends.server import WebServer
from tests.accounts.conftest import AccountsHarness
from tests.end_to_end.scripted_host import LEGACY, MODERN
from tests.faults.raw_http import RawHttpServer, ReceivedRequest, ReplyWriter, raw_http
from tests.observability.observed_harness import calls_in
from tests.peers.canary import contents
from tests.peers.serving import BackgroundLoop
from tests.polling import until
from tests.v1.api import api_client


class RepeatingServer(RawHttpServer):
    """A server that repeats in its answers every header that a request had."""

    def __init__(self) -> None:
        super().__init__()
        self.on = {"tools/call": self._call}

    async def _call(self, seen: ReceivedRequest, reply: ReplyWriter) -> None:
        every = f"{dict(seen.headers)!r}"
        said = f"{every} {quote(every)} {b64encode(every.encode()).decode()} {every.encode().hex()} {json.dumps(every)}"
        if seen.message["params"]["name"] == "odd":
            await reply.error(seen, 200, -32000, said)
        else:
            await reply.result(seen, {"content": [{"type": "text", "text": said}], "isError": True})


class RecordingHarness(AccountsHarness):
    """A gateway with accounts that keeps an audit."""

    def build_app(self) -> tuple[App, WebServer]:
        app = build_app(self.config, self._policies, self._storage, accounts=self.accounts, keeps_records=True)
        return app, WebServer(app.gateway, self.config, app.access, app.report)


def encodings(token: str) -> list[str]:
    inner = b64encode(f"xx{token}".encode()).decode()[4:-4]
    return [token, quote(token, safe=""), token.encode().hex(), inner]


@pytest.fixture
def background() -> Iterator[BackgroundLoop]:
    with BackgroundLoop() as running:
        yield running


async def test_no_sink_has_the_token_of_an_account(
    background: BackgroundLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: D1. The answer, the audit and the log, over every road, with the token of now and the one before."""
    server = background.open(raw_http(RepeatingServer()))
    storage = f"sqlite+aiosqlite:///{tmp_path}/harness.db"
    harness = RecordingHarness(
        background,
        tmp_path,
        {"url": server.url, "auth": {"per": "shared"}, "protocol": "legacy"},
        storage=storage,
        audit={"capture": "full", "flush_interval": "20ms"},
    )
    account = await harness.connect(SHARED, "team")
    tokens: list[str] = []
    told: list[str] = []
    for _ in range(2):
        # Without a form that patterns would know it by.
        account.token = f"p{len(tokens)}/{account.token[-40:]}"
        tokens.append(account.token)
        for kind in (("http", LEGACY[-1]), ("http", MODERN), ("sse", LEGACY[-1])):
            async with harness.connect_as(kind, "one") as host:
                names = ("files.echo", "files.echo", "files.odd")
                told += [json.dumps(await host.call(name, {"repeat": tokens}).message()) for name in names]
        async with api_client(harness, "one") as api:
            told.append(json.dumps((await api.call("files.odd")).body))
    assert server.seen[-1].headers["authorization"] == f"Bearer {tokens[-1]}"
    await until(lambda: len(calls_in(tmp_path / "harness.db")) == len(told), "the calls are on record")
    kept = contents(tmp_path / "harness.db").decode("latin-1")
    everything = {"told": "".join(told), "audit": kept, "log": caplog.text}
    for where, text in everything.items():
        for token in tokens:
            assert not [form for form in encodings(token) if form in text], where
    assert everything["told"].count("[redacted]") > 20
