"""The session of `aggregator stdio`: the program around the one host, from the first request to the end."""

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import BinaryIO

from aggregator.accounts.connect.on_demand import PagesOnDemand
from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.app.reload.config_reload import ConfigReader, ConfigSource
from aggregator.cli.runtime.collector import spare_catalogs
from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.setup import log_as, storage_url
from aggregator.cli.runtime.signals import stop_on_signals
from aggregator.config.load import Loaded
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.principal import Principal
from aggregator.frontends.first_request import FirstInput
from aggregator.frontends.stdio import serve_stdio
from aggregator.gateway.host import Host
from aggregator.identity.identify import RequestFacts
from aggregator.pins.app.locked import lock_beside
from aggregator.policy.live import LivePolicies
from aggregator.redaction.redactor import Redactor


def run_session(
    loaded: Loaded,
    redactor: Redactor,
    read: ConfigReader,
    agent: str | None,
    live: LivePolicies | None,
    stdin: BinaryIO,
    stdout: BinaryIO,
    first: FirstInput,
) -> None:
    """Serve the host on two pipes until it leaves or a signal comes.

    agent: the agent of this process. live: the policies; None without a folder for them. first: the bytes already read
    from stdin.
    """
    source = ConfigSource(loaded, read, log_as)
    policies = live if live is not None else loaded.policies
    app = build_app(
        loaded.config,
        policies,
        storage_url(loaded),
        keeps_records=True,
        redactor=redactor,
        source=source,
        lock=lock_beside(loaded.path),
    )
    run_loop(_serve(app, agent, stdin, stdout, first))


def _pages(app: App) -> AbstractAsyncContextManager[None]:
    """Return the context inside which users connect accounts at a listener that opens with the first link."""
    if app.grants is None:
        return nullcontext()
    pages = PagesOnDemand(app.grants)
    app.grants.base = pages
    return pages.running()


async def _serve(app: App, agent: str | None, stdin: BinaryIO, stdout: BinaryIO, first: FirstInput) -> None:
    principal = app.access.authenticate(RequestFacts("stdio", launch_agent=agent))
    assert isinstance(principal, Principal), "the user who starts the program may start it as any agent"
    limits = app.config.stdio
    host = Host("stdio", limits.names, principal, session="stdio", schemas=limits.schemas)
    app.supervisor.clients.expect_one()
    stopping = stop_on_signals(app.hurry.set, app.reload)
    async with app.running(), _pages(app), Tasks("the stdio command") as tasks:
        tasks.start(spare_catalogs(app.updates))
        # A host that closed stdin and then sends a signal does not wait for answers.
        drain = partial(app.drain, stopping)
        serving = tasks.start(serve_stdio(app.gateway, host, stdin, stdout, limits, drain, first))
        waiting = tasks.start(stopping.wait())
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if app.gateway.drain.started:
            await asyncio.wait({serving})
        else:
            await app.drain()
