"""`aggregator stdio`."""

import asyncio
from pathlib import Path

from aggregator.app import App
from aggregator.cli.setup import load_config, run_loop
from aggregator.cli.signals import stop_on_signals
from aggregator.config.model import Config
from aggregator.domain.errors import OperatorError
from aggregator.domain.tasks import Tasks
from aggregator.doors.stdio import serve_stdio, standard_streams
from aggregator.gateway.host import Host


def run(path: Path | None, names: str | None, log_level: str | None, log_json: bool) -> int:
    """Serve the one host that started us, until it closes stdin or a signal comes."""
    config = load_config(path, log_level=log_level, log_json=log_json).config
    if names is not None:
        config = config.model_copy(update={"stdio": config.stdio.model_copy(update={"names": names})})
    if not config.stdio.enabled:
        raise OperatorError("`stdio` is disabled in the configuration.")
    run_loop(_serve(config))
    return 0


async def _serve(config: Config) -> None:
    app = App(config)
    host = Host("stdio", config.stdio.names)
    stopping = stop_on_signals()
    with standard_streams() as (stdin, stdout):
        async with app.running(), Tasks("the stdio command") as tasks:
            serving = tasks.start(serve_stdio(app.gateway, host, stdin, stdout))
            waiting = tasks.start(stopping.wait())
            await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
