"""A server that repeats the credentials of an account, in every encoding: no sink has them, old or new."""

import asyncio
import json
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.app.console import console_parts
from aggregator.cli.audit.show import FORMATS, export
from aggregator.domain.grant_owner import SHARED
from aggregator.frontends.console.entry import Console
from aggregator.frontends.server import WebServer
from aggregator.redaction.redactor import Redactor
from aggregator.storage.console_sessions import new_secret
from aggregator.storage.database import open_database
from aggregator.storage.records import ConsoleRole
from tests.accounts.conftest import AccountsHarness
from tests.end_to_end.scripted_host import LEGACY, MODERN
from tests.faults.raw_http import RawHttpServer, ReceivedRequest, ReplyWriter, raw_http
from tests.observability.observed_harness import calls_in
from tests.peers.canary import contents
from tests.peers.serving import BackgroundLoop
from tests.polling import until
from tests.telemetry.receiver import Receiver, receiving
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
        redactor = Redactor()
        app = build_app(
            self.config, self._policies, self._storage, accounts=self.accounts, keeps_records=True, redactor=redactor
        )
        metrics = app.telemetry.enable_metrics(app.snapshot)
        console = Console(console_parts(app, redactor))
        return app, WebServer(app.gateway, self.config, app.access, app.report, metrics.page, console)

    async def shown_at_the_console(self, role: ConsoleRole) -> str:
        """Return what a person with a role reads: the calls and each of them, as JSON and as pages, and the server."""
        secret = new_secret()
        assert self._storage is not None
        async with open_database(self._storage) as database:
            await database.console.add_link(secret, role, role, now=time.time())
        form = {"sec-fetch-site": "same-origin", "content-type": "application/x-www-form-urlencoded"}
        async with self.client() as client:
            assert (await client.post(f"/console/enter/{secret}", headers=form, content=b"")).status_code == 303
            listed = await client.get("/console/calls.json")
            found = [listed.text, (await client.get("/metrics")).text]
            paths = [f"/console/calls/{row['seq']}" for row in listed.json()["rows"]]
            for path in ("/console/", "/console/calls", "/console/servers/files", "/console/events", *paths):
                for end in ("", ".json") if path != "/console/" else ("",):
                    answer = await client.get(f"{path}{end}")
                    assert answer.status_code == 200, path
                    found.append(answer.text)
        return "".join(found)


def encodings(token: str) -> list[str]:
    inner = b64encode(f"xx{token}".encode()).decode()[4:-4]
    return [token, quote(token, safe=""), token.encode().hex(), inner]


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        yield found


@pytest.fixture
def background(receiver: Receiver) -> Iterator[BackgroundLoop]:
    with BackgroundLoop() as running:
        yield running


async def test_no_sink_has_the_token_of_an_account(
    background: BackgroundLoop,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    receiver: Receiver,
) -> None:
    """Proves: D1. The answer, the audit and its export, spans, the console and the log, over every road, with the token
    of now and the one before.
    """
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
    await until(lambda: sum(span.kind == "client" for span in receiver.spans) >= len(told), "the spans have arrived")
    capsys.readouterr()
    for form in FORMATS:
        await asyncio.to_thread(export, storage, form)
    everything = {
        "told": "".join(told),
        "audit": kept,
        "export": capsys.readouterr().out,
        "spans": json.dumps([[span.name, span.message, span.attributes] for span in receiver.spans]),
        "approver": await harness.shown_at_the_console("approver"),
        "viewer": await harness.shown_at_the_console("viewer"),
        "log": caplog.text,
    }
    for where, text in everything.items():
        for token in tokens:
            assert not [form for form in encodings(token) if form in text], where
    for where in ("told", "export", "spans", "approver"):
        assert everything[where].count("[redacted]") > 10, f"{where} has the words of the server"
