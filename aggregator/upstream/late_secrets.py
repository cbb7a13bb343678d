"""Deferred secrets of a server, resolved for each connection: a rotated one counts with the next connection.

Law: redaction learns a value before any other part gets it, and never forgets it. The event loop waits for no source:
each runs in a thread of its own, which ends in time, and at once if its value is no longer wanted.
"""

import asyncio
import threading
from contextlib import suppress
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Final

from aggregator.config.server_config import ServerConfig
from aggregator.config.servers.checks import unsound
from aggregator.config.servers.late import put
from aggregator.domain.errors import UpstreamRefused
from aggregator.secret_sources.reference import SecretReference, SecretUnavailable, SourceKind
from aggregator.upstream.redaction import ServerRedaction

if TYPE_CHECKING:
    from aggregator.secret_sources.program_run import ProgramRun

# Fields that may contain secrets.
FIELDS: Final = ("args", "env", "url", "headers", "proxy", "launch", "auth")
# Loaded with the first reference.
_RUN: Final = "aggregator.secret_sources.program_run:ProgramRun"
_VALUE_OF: Final = "aggregator.secret_sources.values:value_of"
# Seconds that one source may take, unless configured otherwise.
LIMIT: Final = 10.0
# The most sources of one kind to ask at one time.
_AT_ONCE: Final = 8
# Seconds that an abandoned source has to end.
_ENDS_WITHIN: Final = 1.0


class SecretMissing(UpstreamRefused):
    """A secret of the server has no value now, so it cannot be connected."""


class LateSecrets:
    """The resolver of the references of all servers.

    limit: seconds that one source may take; set anew by a reload.
    """

    def __init__(self, limit: float = LIMIT) -> None:
        self.limit = limit
        # Apart by kind, so that a keyring that waits for a person holds up no program.
        self._turns: dict[SourceKind, asyncio.Semaphore] = {
            kind: asyncio.Semaphore(_AT_ONCE) for kind in ("keyring", "command", "file")
        }

    def __repr__(self) -> str:
        return f"<LateSecrets within {self.limit:g} s>"

    async def complete(self, config: ServerConfig, redaction: ServerRedaction) -> ServerConfig:
        """Return the config with values in place of its references; the same config if it has none.

        Raises:
            SecretMissing: a reference has no value now, or an unusable one.
        """
        if not config.references:
            return config
        values: dict[SecretReference, str] = {}
        for reference in (one for text in config.references for one in text.references):
            if reference not in values:
                try:
                    async with self._turns[reference.kind]:
                        value = await _ask(reference, self.limit)
                except SecretUnavailable as error:
                    raise SecretMissing(config.id, f"{config.id}: {error.message} {error.fix}") from None
                values[reference] = value
        completed = config
        for text in config.references:
            made = "".join(part if isinstance(part, str) else values[part] for part in text.parts)
            completed = put(completed, text.where, made)
        if not completed.proxy:
            completed = completed.model_copy(update={"proxy": None})
        await asyncio.to_thread(redaction.learn, values.values(), completed)
        _check(completed)
        return completed


def same_secrets(one: ServerConfig, other: ServerConfig) -> bool:
    """Return True if two completed configs have equal texts in the fields for secrets."""
    return all(getattr(one, name) == getattr(other, name) for name in FIELDS)


def _check(completed: ServerConfig) -> None:
    """Refuse texts that cannot be sent or handed to a program, without showing a value."""
    launch = completed.launch
    fields = {name: getattr(completed, name) for name in FIELDS if name != "auth"}
    late = {text.where[0] for text in completed.references}
    for fault in unsound({**fields, "launch": launch.model_dump() if launch is not None else None}):
        if fault.where[0] in late:
            place = ".".join(map(str, fault.where))
            said = f"{completed.id}: `{place}` cannot be used with the secret that it refers to. {fault.message}"
            raise SecretMissing(completed.id, f"{said} Correct the secret at its source.")


async def _ask(reference: SecretReference, limit: float) -> str:
    """Return the value of a reference, which a thread waits for."""
    loop = asyncio.get_running_loop()
    run: ProgramRun = (await asyncio.to_thread(resolve_name, _RUN))()
    found: asyncio.Future[str] = loop.create_future()
    # Marked as retrieved, even if it is no longer wanted.
    found.add_done_callback(lambda future: future.cancelled() or future.exception())

    def settle(outcome: str | Exception) -> None:
        if found.done():
            return
        if isinstance(outcome, str):
            found.set_result(outcome)
        else:
            found.set_exception(outcome)

    def ask() -> None:
        outcome: str | Exception
        try:
            outcome = resolve_name(_VALUE_OF)(reference, limit, run)
        except Exception as error:
            outcome = error
        with suppress(RuntimeError):  # the event loop has been closed
            loop.call_soon_threadsafe(settle, outcome)

    # No thread of the pool: others, and the end of the program, would wait for it.
    threading.Thread(target=ask, daemon=True, name="secret").start()
    try:
        return await asyncio.shield(found)
    except asyncio.CancelledError:
        run.cancel()
        # A moment, in which the thread ends its program.
        await asyncio.wait([found], timeout=_ENDS_WITHIN)
        raise
