"""`aggregator serve`."""

import gc
import logging
from pathlib import Path

from aggregator.app import App
from aggregator.cli.setup import load_config, run_loop, storage_url
from aggregator.cli.signals import stop_on_signals
from aggregator.config.model import Config
from aggregator.domain.errors import OperatorError
from aggregator.domain.redact import Redactor
from aggregator.doors.guard import refuse_public
from aggregator.doors.v1.door import V1_PATH
from aggregator.doors.web import SSE_PATH, Web, listening_socket, serve_web

log = logging.getLogger(__name__)


def run(
    path: Path | None, host: str | None, port: int | None, names: str | None, log_level: str | None, log_json: bool
) -> int:
    """Serve until a signal comes.

    Raises:
        OperatorError: the address cannot be listened on, or must not be.
    """
    loaded = load_config(path, log_level=log_level, log_json=log_json)
    run_loop(_serve(_with_options(loaded.config, host, port, names), loaded.policies, loaded.redactor))
    return 0


def _with_options(config: Config, host: str | None, port: int | None, names: str | None) -> Config:
    given = {key: value for key, value in (("host", host), ("port", port), ("names", names)) if value is not None}
    sse = config.sse.model_copy(update={"names": names} if names is not None else {})
    return config.model_copy(update={"http": config.http.model_copy(update=given), "sse": sse})


async def _serve(config: Config, policies: Path, redactor: Redactor) -> None:
    http = config.http
    if not (http.enabled or config.sse.enabled or config.v1.enabled):
        raise OperatorError("`http`, `sse` and `v1` are disabled in the configuration: there is nothing to serve.")
    app = App(config, policies, storage_url(config), caches=True, redactor=redactor)
    await app.learn_keys()
    if app.access.open:
        refuse_public(http.host)
        log.warning("there are no policy files and no keys: whoever is on this machine may call everything")
    web = Web(app.gateway, config, app.access, app.report, app.observing.count(app.snapshot).page)
    stopping = stop_on_signals()
    with listening_socket(http.host, http.port) as bound:
        address, port = bound.getsockname()[:2]
        base = f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"
        if http.enabled:
            log.info("Streamable HTTP at %s%s", base, http.path)
        if config.sse.enabled:
            log.info("SSE at %s%s", base, SSE_PATH)
        if config.v1.enabled:
            log.info("/v1, for applications without MCP, at %s%s", base, V1_PATH)
        # What was loaded to start stays for good: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        async with app.running():
            await serve_web(web, bound, stopping)
