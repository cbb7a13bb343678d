"""The last words of a server that is full of secrets: wherever they are cut, no half of a secret is shown."""

import sys

import pytest

from aggregator.cli.runtime.logs import LogFormatter
from aggregator.redaction.redactor import REDACTED, Redactor
from tests.faults.app_harness import running_app, server_config
from tests.polling import until

SECRET = "correct-horse-battery-staple"
# Longer than whatever is kept of a line, with a secret at every place where it may be cut.
COMPLAINS = """
import os, sys
secret = os.environ["API_TOKEN"]
sys.stderr.write("." * {shift} + (secret + " ") * 3_000 + "{end}")
sys.exit(1)
"""
# Wherever a text is cut, one of these cuts a secret in its middle.
SHIFTS = range(0, len(SECRET), 7)


@pytest.mark.parametrize("end", ["\\n", ""], ids=["a line", "no line end"])
async def test_a_cut_shows_no_half_of_a_secret(end: str, caplog: pytest.LogCaptureFixture) -> None:
    """Proves: D1, D9. In the reason, in the last lines and in the log."""
    caplog.set_level("INFO", "aggregator")
    servers = [
        server_config(
            f"s{shift}",
            type="stdio",
            command=sys.executable,
            args=("-I", "-S", "-c", COMPLAINS.format(shift=shift, end=end)),
            env={"API_TOKEN": SECRET},
        )
        for shift in SHIFTS
    ]
    async with running_app(*servers) as harness:
        upstreams = [harness.upstream(server.id) for server in servers]
        await until(lambda: all("exit code 1" in one.reason for one in upstreams), "each has failed")
        redact, written = Redactor([SECRET]), LogFormatter([SECRET], as_json=False)
        shown = {
            "the reason": [one.reason_for_operator for one in upstreams],
            "the last lines": [line.text for one in upstreams for line in one.stderr_tail.lines(redact)],
            "the log": [written.format(record) for record in caplog.records],
        }
    for where, texts in shown.items():
        text = "\n".join(texts)
        assert REDACTED in text, where
        assert SECRET[:5] not in text, where
        assert SECRET[-5:] not in text, where
