"""Events of the program as notices: made of audit events and, for reached limits, of the records of calls.

A program that is to get a notice runs without a shell, in a process group of its own, within its time.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from aggregator.catalog.difference import ToolChanges
from aggregator.config.model import Config
from aggregator.domain.call_record import CallRecord
from aggregator.domain.errors import OverLimit, UpstreamError, UpstreamRefused
from aggregator.gateway.call_log import CallObservers
from aggregator.notify.config import ReceiverConfig
from aggregator.notify.send.delivery import DeliveryAnswer
from aggregator.notify.send.notice import NoticeWriter
from aggregator.notify.send.notifier import Notifier, ReachedLimit
from aggregator.redaction.redactor import Redactor
from aggregator.storage.records import Approval
from aggregator.telemetry.snapshot import ReceiverCounts
from aggregator.upstream.process.process import run_child
from aggregator.upstream.process.reaper_pipe import Reaper

CONSOLE_PATH: Final = "/console"

# States in which an upstream is not there, and in which it is not expected to be; in all others that is open.
_DOWN: Final = frozenset({"unavailable", "silent"})
_GONE: Final = frozenset({"disabled", "stopped"})


class NoticePrograms:
    """A `RunProgram`. What a program writes to stderr is logged as `server.notify.NAME`; its stdout is dropped.

    `reaper` ends the programs with ours.
    """

    def __init__(self, reaper: Reaper) -> None:
        self._reaper = reaper

    async def __call__(self, receiver: ReceiverConfig, given: bytes, /) -> DeliveryAnswer:
        """Run the program of a receiver, which reads `given`; a program that does not end is ended with its group."""
        assert receiver.command is not None
        name = f"notify.{receiver.name}"
        try:
            async with (
                asyncio.timeout(receiver.timeout),
                run_child(
                    name, receiver.command, receiver.args, receiver.env, None, None, self._reaper, close_grace=0.0
                ) as child,
            ):
                child.write(given)
                child.close_stdin()
                # Shielded: what waits here may be cancelled, and the end of the child is still to be seen.
                code = await asyncio.shield(child.exited)
        except TimeoutError:
            return DeliveryAnswer(False, f"it took more than {receiver.timeout:g} s and was ended", again=True)
        except UpstreamError as error:
            said = str(error).removeprefix(f"{name}: ")
            return DeliveryAnswer(False, said, again=not isinstance(error, UpstreamRefused))
        ended = f"exit code {code}" if code >= 0 else f"signal {-code}"
        return DeliveryAnswer(code == 0, ended, again=code != 0)


class NoticeEvents:
    """The one place where the program notifies receivers. Its methods return at once.

    tells: False for a program that only reads; then nothing is sent.
    """

    def __init__(
        self, config: Config, redactor: Redactor, reaper: Reaper, observers: CallObservers, *, tells: bool
    ) -> None:
        writer = NoticeWriter(redactor)
        self._tells = tells
        self._redactor = redactor
        self._notifier = Notifier(config.notify if tells else (), writer, NoticePrograms(reaper))
        self._writer = writer
        self._observers = observers
        self._public_url = config.http.public_url if config.console.enabled else None
        if self._public_url is not None:
            self.served_at(self._public_url)
        self._observe_limits()

    def served_at(self, address: str) -> None:
        """Have links lead to the console at this address of ours, unless `http.public_url` names another."""
        self._writer.console = f"{(self._public_url or address).rstrip('/')}{CONSOLE_PATH}"

    def running(self, hurry: asyncio.Event) -> AbstractAsyncContextManager[None]:
        """Send notices inside; on exit, wait a moment for the queued ones, unless `hurry` is set."""
        return self._notifier.running(hurry)

    def reconfigure(self, receivers: Iterable[ReceiverConfig]) -> None:
        """Take the receivers of another configuration."""
        self._notifier.reconfigure(receivers if self._tells else ())
        self._observe_limits()

    def approval_waiting(self, approval: Approval) -> None:
        """Notify that a call waits for confirmation."""
        self._notifier.announce(
            "approval.waiting",
            approval.agent_id,
            approval.server,
            lambda: self._writer.approval_waiting(
                approval.id, approval.agent_id, approval.tool, approval.server, approval.rule, approval.rule_source
            ),
        )

    def server_state(self, server: str, state: str, reason: str) -> None:
        """Note the new state of a server: `silent` is one that is ready and does not answer."""
        if state in _DOWN:
            self._notifier.server_down(server, reason)
        elif state == "ready":
            self._notifier.server_up(server)
        elif state in _GONE:
            self._notifier.server_gone(server)

    def server_removed(self, server: str) -> None:
        """Stop notifying about a server that was removed from the configuration."""
        self._notifier.server_gone(server)

    def tools_changed(self, server: str, changes: ToolChanges) -> None:
        """Notify that a server's tools have changed."""
        added, removed, changed = map(tuple, (changes.added, changes.removed, changes.changed))
        self._notifier.announce(
            "tools.changed", None, server, lambda: self._writer.tools_changed(server, added, removed, changed)
        )

    def definitions_held(self, server: str, names: Sequence[str], why: str) -> None:
        """Tell that definitions of a server wait for an approval."""
        self._notifier.announce(
            "definition.held", None, server, lambda: self._writer.definition_held(server, names, why)
        )

    def report(self) -> dict[str, Any]:
        """Return the state of each receiver for `/readyz`; what one of them answered may repeat its own address."""
        return {
            name: {**report, "problem": self._redactor(report["problem"]) if report["problem"] is not None else None}
            for name, report in self._notifier.report().items()
        }

    def counts(self) -> dict[str, ReceiverCounts]:
        """Return the counts of each receiver for the metrics."""
        return {
            name: ReceiverCounts(sent=counts.sent, failed=counts.failed, dropped=counts.dropped, waiting=counts.waiting)
            for name, counts in self._notifier.counts().items()
        }

    def _observe_limits(self) -> None:
        """Observe the records of calls only while a receiver subscribes to reached limits."""
        others = tuple(sink for sink in self._observers.sinks if sink != self._call_ended)
        self._observers.sinks = (*others, self._call_ended) if self._notifier.wants_limits() else others

    def _call_ended(self, record: CallRecord) -> None:
        # Without a rule it is no limit of the policies.
        if record.outcome.error_code == OverLimit.code and record.decision.rule is not None:
            tool = record.called.tool or record.asked_name
            rule, source = record.decision.rule, record.decision.rule_source
            self._notifier.limit_reached(ReachedLimit(record.caller.agent_id, tool, record.called.server, rule, source))
