"""`aggregator stdio`."""

import asyncio
import os
from pathlib import Path

from aggregator.app import App
from aggregator.cli.setup import load_config, run_loop, storage_url
from aggregator.cli.signals import stop_on_signals
from aggregator.config.model import Config
from aggregator.domain.errors import OperatorError
from aggregator.domain.principal import Principal
from aggregator.domain.redact import Redactor
from aggregator.domain.tasks import Tasks
from aggregator.doors.stdio import serve_stdio, standard_streams
from aggregator.gateway.host import Host
from aggregator.identity.identify import Facts, launch_agent


def run(path: Path | None, agent: str | None, names: str | None, log_level: str | None, log_json: bool) -> int:
    """Serve the one host that started us, until it closes stdin or a signal comes."""
    loaded = load_config(path, log_level=log_level, log_json=log_json)
    config = loaded.config
    if names is not None:
        config = config.model_copy(update={"stdio": config.stdio.model_copy(update={"names": names})})
    if not config.stdio.enabled:
        raise OperatorError("`stdio` is disabled in the configuration.")
    run_loop(_serve(config, loaded.policies, loaded.redactor, launch_agent(agent, os.environ)))
    return 0


async def _serve(config: Config, policies: Path, redactor: Redactor, agent: str | None) -> None:
    app = App(config, policies, storage_url(config), caches=True, redactor=redactor)
    principal = app.access.admit(Facts("stdio", launch_agent=agent))
    assert isinstance(principal, Principal), "whoever starts the program may start it as any agent"
    host = Host("stdio", config.stdio.names, principal, session="stdio")
    app.supervisor.audience.expect_one()
    stopping = stop_on_signals()
    with standard_streams() as (stdin, stdout):
        async with app.running(), Tasks("the stdio command") as tasks:
            serving = tasks.start(serve_stdio(app.gateway, host, stdin, stdout))
            waiting = tasks.start(stopping.wait())
            await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
