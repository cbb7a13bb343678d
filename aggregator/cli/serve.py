"""`aggregator serve`: serves hosts over Streamable HTTP, SSE and `/v1` until a signal comes."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from aggregator.accounts.app.pages import connect_pages
from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.app.console import console_parts
from aggregator.app.reload.config_reload import ConfigReader, ConfigSource
from aggregator.app.reports import GroupReports, Siblings
from aggregator.cli.runtime.collector import spare_catalogs, spare_start
from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.logs import is_json, name_worker
from aggregator.cli.runtime.progress import show_start
from aggregator.cli.runtime.running import announced, wait_asked
from aggregator.cli.runtime.setup import FileReader, environment, load_to_serve, log_as, storage_url, with_log
from aggregator.cli.runtime.signals import stop_on_signals
from aggregator.config.load import Loaded
from aggregator.config.model import Config
from aggregator.config.settings import HttpConfig
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import OperatorError
from aggregator.domain.uris.addresses import is_loopback
from aggregator.frontends.acceptor import Acceptor, SharedSocket, WorkerLine
from aggregator.frontends.console.entry import Console
from aggregator.frontends.console.parts import CONSOLE_PATH
from aggregator.frontends.server import SSE_PATH, WebServer, listening_socket, serve_web
from aggregator.frontends.tls import ServerTls
from aggregator.frontends.v1.routes import V1_PATH
from aggregator.frontends.web.address_wishes import COMPATIBLE_PATH
from aggregator.frontends.web.host_guard import refuse_public
from aggregator.pins.app.locked import lock_beside
from aggregator.redaction.redactor import Redactor
from aggregator.replicas.hop_listener import HopListener, address_of, listen_at
from aggregator.storage.locate import full_url, sqlite_path
from aggregator.telemetry.metrics import Metrics
from aggregator.workers.orders import LISTENS, SERVES, SETTLED
from aggregator.workers.worker import InheritedWorker, inherited_worker

log = logging.getLogger(__name__)

_ANY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104


def run(
    path: Path | None,
    host: str | None,
    port: int | None,
    names: str | None,
    workers: str | None,
    log_level: str | None,
    log_json: bool,
) -> int:
    """Serve in this process until a signal ends it and the running requests have had their grace period.

    Raises:
        OperatorError: the address cannot be bound, or must not be without keys, or every frontend is disabled.
    """
    worker = inherited_worker(os.environ)
    if worker is not None:
        name_worker(worker.number)
    loaded = load_to_serve(path, log_level, log_json, repeats=worker is not None and not worker.first)

    def with_options(config: Config, /) -> Config:
        return with_log(_with_options(config, host, port, names), log_level, log_json)

    given = replace(loaded, config=with_options(loaded.config))
    run_loop(_serve(given, loaded.redactor, FileReader(given, with_options, environment()), worker))
    return 0


def _with_options(config: Config, host: str | None, port: int | None, names: str | None) -> Config:
    given = {key: value for key, value in (("host", host), ("port", port), ("names", names)) if value is not None}
    sse = config.sse.model_copy(update={"names": names} if names is not None else {})
    return config.model_copy(update={"http": config.http.model_copy(update=given), "sse": sse})


async def _serve(loaded: Loaded, redactor: Redactor, read: ConfigReader, worker: InheritedWorker | None) -> None:
    config, http = loaded.config, loaded.config.http
    if not (http.enabled or config.sse.enabled or config.v1.enabled):
        raise OperatorError("`http`, `sse` and `v1` are disabled in the configuration: there is nothing to serve.")
    tls = ServerTls(loaded.tls) if loaded.tls is not None else None
    app = build_app(
        config,
        loaded.policies,
        storage_url(loaded),
        keeps_records=True,
        redactor=redactor,
        source=ConfigSource(loaded, read, log_as),
        lock=lock_beside(loaded.path),
    )
    await app.load_keys(beside_others=worker is not None)
    file = sqlite_path(full_url(storage_url(loaded)))
    app.replication.enabled = worker is not None or file is None
    if app.access.open:
        refuse_public(http.host)
    level = logging.WARNING if app.access.open else logging.INFO
    if worker is None or worker.first:
        log.log(level, "%s", app.access.keyless_text())
    metrics = app.telemetry.enable_metrics(app.snapshot)
    reports = _reports(app, metrics, worker) if app.replication.enabled else None
    running = reports.running if reports is not None else None
    console = Console(console_parts(app, redactor, running)) if config.console.enabled else None
    connect = connect_pages(app) if app.grants is not None else None
    web = WebServer(app.gateway, config, app.access, app.report, metrics.page, console, reports, connect)
    stopping = stop_on_signals(app.hurry.set, app.reload)
    with _bound(http, worker) as bound, ExitStack() as until_ended:
        address, port = bound.getsockname()[:2]
        scheme = "https" if tls is not None else "http"
        base = f"{scheme}://[{address}]:{port}" if ":" in address else f"{scheme}://{address}:{port}"
        if worker is None or worker.first:
            _log_addresses(config, web, base)
            if tls is not None:
                tls.log_facts()
        if connect is not None:
            connect.listens = f"{scheme}://localhost:{port}" if address in _ANY_ADDRESS else base
        if console is not None:
            app.notices.served_at(f"{scheme}://localhost:{port}" if address in _ANY_ADDRESS else base)
        if worker is None:
            asked = until_ended.enter_context(announced(os.environ, loaded.path, base))
        spare_start()
        async with app.running(), _as_replica(app, config, web, reports, worker), Tasks("the serve command") as tasks:
            tasks.start(spare_catalogs(app.updates))
            if worker is None:
                tasks.start(show_start(app, redactor))
                tasks.start(_stop_if_asked(asked, stopping))
                await serve_web(web, bound, stopping, app.drain, app.leave, tls)
                return
            worker.report(SERVES)
            tasks.start(worker.run(app.reload, stopping.set, config.shutdown_timeout))
            tasks.start(_report_settled(app, worker))
            shared = SharedSocket(
                Acceptor(bound, WorkerLine(worker.table, worker.line), web.connection_admission), worker.handing_over
            )
            await serve_web(web, bound, stopping, app.drain, app.leave, tls, shared)


async def _stop_if_asked(asked: Callable[[], bool], stopping: asyncio.Event) -> None:
    await wait_asked(asked)
    log.info("`aggregator stop` asks this process to end")
    stopping.set()


def _bound(http: HttpConfig, worker: InheritedWorker | None) -> socket.socket:
    """Return the listening socket: the workers' shared one, or a new one.

    Raises:
        OperatorError: the address cannot be used.
    """
    if worker is not None and worker.listening is not None:
        return worker.listening
    bound = listening_socket(http.host, http.port)
    if worker is not None:
        level = logging.getLevelName(logging.getLogger("aggregator").level).lower()
        worker.report(LISTENS, bound, level=level, json=is_json())
    return bound


def _reports(app: App, metrics: Metrics, worker: InheritedWorker | None) -> GroupReports:
    """Return the reports of all replicas, and publish this one's own facts."""
    facts: dict[str, Any] = {"machine": socket.gethostname(), "pid": os.getpid()}
    siblings = None
    if worker is not None:
        facts |= {"workers": worker.group, "worker": worker.number, "line": worker.line}
        siblings = Siblings(worker.group, worker.line, worker.kept)
    app.replication.membership.say(lambda: facts)
    return GroupReports(
        app.replication,
        app.report,
        app.gateway.list_changes.sessions,
        metrics.page,
        app.gateway.running_calls,
        siblings,
    )


async def _report_settled(app: App, worker: InheritedWorker) -> None:
    """Tell the supervisor once every server was tried."""
    await app.supervisor.wait_all_tried()
    worker.report(SETTLED)


@asynccontextmanager
async def _as_replica(
    app: App, config: Config, web: WebServer, reports: GroupReports | None = None, worker: InheritedWorker | None = None
) -> AsyncIterator[HopListener | None]:
    """Join the group and answer the other replicas inside, if this process is one of several."""
    if not app.replication.enabled:
        await app.replication.start()
        yield None
        return
    settings = config.replicas
    listener = HopListener(app.replication.hops, config.http.max_body_bytes)
    web.answer_hops(listener)
    nth = worker.line if worker is not None else 0
    with listening_socket(*listen_at(settings.listen, config.http.host, nth), "`replicas.listen`") as bound:
        app.replication.membership.address = address_of(bound, settings.address, nth)
        log.info("other replicas reach this one at %s", app.replication.membership.address)
        if reports is not None:
            reports.answer(listener)
        await app.replication.start()
        async with listener.serving(bound):
            yield listener
            if reports is not None:
                await reports.keep()


def _log_addresses(config: Config, web: WebServer, base: str) -> None:
    http = config.http
    if http.public_url is not None:
        log.info("hosts know this address as %s", web.own.public_url)
    if not is_loopback(http.host):
        log.info(
            "requests are refused unless their `Host` is an address of this machine or one of %s; name others in "
            "http.allowed_hosts, or set http.public_url",
            ", ".join(web.own.hosts),
        )
    if http.enabled:
        log.info("Streamable HTTP at %s%s", base, http.path)
        # The form without a query: queries are redacted in the log.
        plain = f"{http.path.rstrip('/')}{COMPATIBLE_PATH}"
        log.info("for agent frameworks, with names and schemas that every model API takes: %s%s", base, plain)
    if config.sse.enabled:
        log.info("SSE at %s%s", base, SSE_PATH)
    if config.v1.enabled:
        log.info("/v1, for applications without MCP, at %s%s", base, V1_PATH)
    if config.console.enabled:
        log.info("the console, for people, at %s%s; `aggregator console` signs you in", base, CONSOLE_PATH)
