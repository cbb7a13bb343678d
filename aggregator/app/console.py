"""The parts of a running program that the pages of the console use."""

import asyncio

from aggregator.accounts.app.pages import grants_of
from aggregator.app.app import App
from aggregator.frontends.console.parts import ConsoleParts, RunningOfAll
from aggregator.frontends.web.own_address import OwnAddress
from aggregator.gateway.calls.running_calls import RunningCalls
from aggregator.redaction.redactor import Redactor
from aggregator.telemetry.last_hour import Hour


def console_parts(app: App, redactor: Redactor, running: RunningOfAll | None = None) -> ConsoleParts:
    """Return the parts of the program that the console reads. `redactor` removes secrets from its pages, and `running`
    returns the calls in flight at all replicas; the default is this process alone.
    """

    async def own_calls() -> tuple[RunningCalls, tuple[str, ...]]:
        return app.gateway.running_calls(), ()

    async def last_hour() -> Hour | None:
        kept = app.telemetry.last_hour
        return await asyncio.to_thread(kept.collected().hour) if kept is not None else None

    return ConsoleParts(
        config=lambda: app.config,
        gateway=app.gateway,
        answers=app.answers,
        browser=app.browser,
        upstreams=app.upstreams,
        servers=app.servers,
        access=app.access,
        own=OwnAddress(app.config.http),
        policies=app.live,
        database=app.database,
        redactor=redactor,
        report=app.report,
        snapshot=app.snapshot,
        hour=last_hour,
        running=running or own_calls,
        record=app.telemetry.record_event,
        grants=grants_of(app),
        pins=app.pins,
    )
