"""`aggregator serve`: serves hosts over Streamable HTTP, SSE and `/v1` until a signal comes."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Final

from aggregator.app.build import build_app
from aggregator.app.console import console_parts
from aggregator.app.reload.config_reload import ConfigReader, ConfigSource
from aggregator.cli.runtime.collector import spare_catalogs, spare_start
from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.progress import show_start
from aggregator.cli.runtime.setup import FileReader, environment, load_to_serve, log_as, storage_url, with_log
from aggregator.cli.runtime.signals import stop_on_signals
from aggregator.config.load import Loaded
from aggregator.config.model import Config
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import OperatorError
from aggregator.domain.uris.addresses import is_loopback
from aggregator.frontends.console.entry import Console
from aggregator.frontends.console.parts import CONSOLE_PATH
from aggregator.frontends.server import SSE_PATH, WebServer, listening_socket, serve_web
from aggregator.frontends.v1.routes import V1_PATH
from aggregator.frontends.web.host_guard import refuse_public
from aggregator.redaction.redactor import Redactor

log = logging.getLogger(__name__)

_ANY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104


def run(
    path: Path | None, host: str | None, port: int | None, names: str | None, log_level: str | None, log_json: bool
) -> int:
    """Serve until a signal comes and the running requests were given their time.

    Raises:
        OperatorError: the address cannot be bound, or must not be without keys, or every frontend is disabled.
    """
    loaded = load_to_serve(path, log_level, log_json)

    def with_options(config: Config, /) -> Config:
        return with_log(_with_options(config, host, port, names), log_level, log_json)

    given = replace(loaded, config=with_options(loaded.config))
    run_loop(_serve(given, loaded.redactor, FileReader(given, with_options, environment())))
    return 0


def _with_options(config: Config, host: str | None, port: int | None, names: str | None) -> Config:
    given = {key: value for key, value in (("host", host), ("port", port), ("names", names)) if value is not None}
    sse = config.sse.model_copy(update={"names": names} if names is not None else {})
    return config.model_copy(update={"http": config.http.model_copy(update=given), "sse": sse})


async def _serve(loaded: Loaded, redactor: Redactor, read: ConfigReader) -> None:
    config, http = loaded.config, loaded.config.http
    if not (http.enabled or config.sse.enabled or config.v1.enabled):
        raise OperatorError("`http`, `sse` and `v1` are disabled in the configuration: there is nothing to serve.")
    app = build_app(
        config,
        loaded.policies,
        storage_url(loaded),
        keeps_records=True,
        redactor=redactor,
        source=ConfigSource(loaded, read, log_as),
    )
    await app.load_keys()
    if app.access.open:
        refuse_public(http.host)
    level = logging.WARNING if app.access.open else logging.INFO
    log.log(level, "%s", app.access.keyless_text())
    metrics = app.telemetry.enable_metrics(app.snapshot)
    console = Console(console_parts(app, redactor)) if config.console.enabled else None
    web = WebServer(app.gateway, config, app.access, app.report, metrics.page, console)
    stopping = stop_on_signals(app.hurry.set, app.reload)
    with listening_socket(http.host, http.port) as bound:
        address, port = bound.getsockname()[:2]
        base = f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"
        _log_addresses(config, web, base)
        if console is not None:
            app.notices.served_at(f"http://localhost:{port}" if address in _ANY_ADDRESS else base)
        spare_start()
        async with app.running(), Tasks("the serve command") as tasks:
            tasks.start(spare_catalogs(app.updates))
            tasks.start(show_start(app, redactor))
            await serve_web(web, bound, stopping, app.drain)


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
    if config.sse.enabled:
        log.info("SSE at %s%s", base, SSE_PATH)
    if config.v1.enabled:
        log.info("/v1, for applications without MCP, at %s%s", base, V1_PATH)
    if config.console.enabled:
        log.info("the console, for people, at %s%s; `aggregator console` signs you in", base, CONSOLE_PATH)
