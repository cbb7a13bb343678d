"""`aggregator notify test`: one attempt to notify each receiver, and its outcome."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.setup import load_config
from aggregator.cli.runtime.tables import one_line
from aggregator.cli.runtime.writer import say
from aggregator.config.load import Loaded
from aggregator.domain.errors import OperatorError
from aggregator.notify.app import CONSOLE_PATH, NoticePrograms
from aggregator.notify.config import ReceiverConfig
from aggregator.notify.send.delivery import DeliveryAnswer, RunProgram, delivery_to
from aggregator.notify.send.notice import NoticeWriter
from aggregator.upstream.process.reaper_pipe import Reaper

_NAMED: Final = 10


def run(path: Path | None, name: str | None, as_json: bool) -> int:
    """Send a trial to the receiver `name`, or to all; return 1 if one did not take it.

    Raises:
        OperatorError: there is no receiver, or none of this name.
    """
    loaded = load_config(path, log_level="warning")
    receivers = _wanted(loaded.config.notify, name)
    answers = run_loop(_try_all(loaded, receivers))
    if as_json:
        found = [
            {"name": receiver.name, "to": receiver.shown, "accepted": answer.accepted, "said": answer.said}
            for receiver, answer in zip(receivers, answers, strict=True)
        ]
        say(json.dumps(found, indent=2))
    else:
        for receiver, answer in zip(receivers, answers, strict=True):
            how = "told" if answer.accepted else "NOT told"
            say(one_line(f"{receiver.name}: {how}, {receiver.shown}: {loaded.redactor(answer.said)}"))
    return 0 if all(answer.accepted for answer in answers) else 1


def _wanted(receivers: Sequence[ReceiverConfig], name: str | None) -> list[ReceiverConfig]:
    if not receivers:
        raise OperatorError(
            'The configuration names no usable receiver. Add one: "notify": [{"name": "on-call", "url": "https://..."}].'
        )
    found = [receiver for receiver in receivers if name is None or receiver.name == name]
    if not found:
        names = ", ".join(receiver.name for receiver in receivers[:_NAMED])
        raise OperatorError(f"There is no receiver {name!r} in `notify`; there are: {names}.")
    return found


async def _try_all(loaded: Loaded, receivers: Sequence[ReceiverConfig]) -> list[DeliveryAnswer]:
    writer, reaper = NoticeWriter(loaded.redactor), Reaper()
    public = loaded.config.http.public_url
    if public is not None and loaded.config.console.enabled:
        writer.console = f"{public.rstrip('/')}{CONSOLE_PATH}"
    try:
        return await asyncio.gather(*(_try_one(one, writer, NoticePrograms(reaper)) for one in receivers))
    finally:
        await reaper.close()


async def _try_one(receiver: ReceiverConfig, writer: NoticeWriter, programs: RunProgram) -> DeliveryAnswer:
    delivery = delivery_to(receiver, programs)
    try:
        return await delivery.attempt(writer.trial(receiver.name))
    finally:
        await delivery.close()
