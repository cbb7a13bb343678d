"""The cause for which the program of a server ended, for the commands that start it themselves."""

from aggregator.domain.program_causes import program_cause
from aggregator.redaction.redactor import Redactor
from aggregator.upstream.upstream import Upstream


def ended_cause(upstream: Upstream, redactor: Redactor) -> str | None:
    """Return why a server that is not ready ended, with the mend; None if its last words name no known cause."""
    words = [line.text for line in upstream.stderr_tail.lines(redactor) if line.kind == "stderr"]
    cause = program_cause((upstream.lifecycle.current.reason, *words))
    return f"{cause.sentence}. {cause.mend}" if cause is not None else None
