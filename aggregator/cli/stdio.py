"""`aggregator stdio`: serves the one host that started it, over stdin and stdout."""

import asyncio
import os
from dataclasses import replace
from functools import partial
from pathlib import Path

from aggregator.app.build import build_app
from aggregator.app.config_reload import ConfigReader, ConfigSource
from aggregator.cli.runtime.setup import FileReader, environment, load_to_serve, log_as, run_loop, storage_url, with_log
from aggregator.cli.runtime.signals import stop_on_signals
from aggregator.config.load import Loaded
from aggregator.config.model import Config
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import OperatorError
from aggregator.domain.principal import Principal
from aggregator.frontends.stdio import serve_stdio, standard_streams
from aggregator.gateway.host import Host
from aggregator.identity.identify import RequestFacts, launch_agent
from aggregator.redaction.redactor import Redactor


def run(path: Path | None, agent: str | None, names: str | None, log_level: str | None, log_json: bool) -> int:
    """Serve until the host closes stdin or a signal comes.

    Raises:
        OperatorError: `stdio` is disabled in the configuration.
    """
    loaded = load_to_serve(path, log_level, log_json)

    def with_options(config: Config, /) -> Config:
        if names is not None:
            config = config.model_copy(update={"stdio": config.stdio.model_copy(update={"names": names})})
        return with_log(config, log_level, log_json)

    given = replace(loaded, config=with_options(loaded.config))
    if not given.config.stdio.enabled:
        raise OperatorError("`stdio` is disabled in the configuration.")
    run_loop(
        _serve(given, loaded.redactor, FileReader(given, with_options, environment()), launch_agent(agent, os.environ))
    )
    return 0


async def _serve(loaded: Loaded, redactor: Redactor, read: ConfigReader, agent: str | None) -> None:
    config = loaded.config
    app = build_app(
        config,
        loaded.policies,
        storage_url(loaded),
        keeps_records=True,
        redactor=redactor,
        source=ConfigSource(loaded, read, log_as),
    )
    principal = app.access.authenticate(RequestFacts("stdio", launch_agent=agent))
    assert isinstance(principal, Principal), "the user who starts the program may start it as any agent"
    host = Host("stdio", config.stdio.names, principal, session="stdio")
    app.supervisor.clients.expect_one()
    stopping = stop_on_signals(app.hurry.set, app.reload)
    with standard_streams() as (stdin, stdout):
        async with app.running(), Tasks("the stdio command") as tasks:
            # A host that closed stdin and then sends a signal does not wait for answers.
            drain = partial(app.drain, stopping)
            serving = tasks.start(serve_stdio(app.gateway, host, stdin, stdout, config.stdio, drain))
            waiting = tasks.start(stopping.wait())
            await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if app.gateway.drain.started:
                await asyncio.wait({serving})
            else:
                await app.drain()
