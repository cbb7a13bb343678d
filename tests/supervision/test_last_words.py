"""The last words of a server that is full of secrets: wherever they are cut, no half of a secret is shown."""

import sys

import pytest

from aggregator.cli.runtime.logs import LogFormatter
from aggregator.redaction.redactor import REDACTED, Redactor
from aggregator.upstream.process.stderr import ProbeReport
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


OF_PROBE = [
    "WARNING:root:Failed to validate request: 31 validation errors for ClientRequest",
    "PingRequest.method",
    "  Input should be 'ping' [type=literal_error, input_value='server/discover', input_type=str]",
    "    For further information visit https://errors.pydantic.dev/2.14/v/literal_error",
    "InitializeRequest.params.protocolVersion",
    "  Field required [type=missing, input_value={'_meta': {}}, input_type=dict]",
]
OF_ANOTHER = [line.replace("server/discover", "tools/cal") for line in OF_PROBE]


@pytest.mark.parametrize(
    ("lines", "own"),
    [
        (["up", *OF_PROBE, "down", "  more"], ["up", "down", "  more"]),
        ([*OF_PROBE, "down", *OF_PROBE], ["down", *OF_PROBE]),
        (["up", *OF_ANOTHER, "down"], ["up", *OF_ANOTHER, "down"]),
        (OF_PROBE[:2], OF_PROBE[:2]),
        ([OF_PROBE[0], "It is closed.", *OF_PROBE], [OF_PROBE[0], "It is closed.", *OF_PROBE]),
        ([*OF_PROBE, *["  x"] * 400], ["  x"] * (400 - 300 + len(OF_PROBE))),
    ],
    ids=["left out", "once", "of another request", "cut off", "another line", "bounded"],
)
def test_a_report_about_our_probe_is_no_word_of_the_server(lines: list[str], own: list[str]) -> None:
    """7 of issue 32: each server with version 1 of the Python SDK wrote 80 lines about it into our log when started."""
    report = ProbeReport()
    assert [said for line in lines for said in report.own_words(line)] + report.rest() == own


async def test_the_log_has_what_a_server_says_and_not_its_report(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "aggregator")
    says = "\n".join([*OF_PROBE, "I am closed."])
    program = f"import sys; sys.stdin.readline(); sys.exit({says!r})"
    server = server_config("old", type="stdio", command=sys.executable, args=("-I", "-S", "-c", program))
    async with running_app(server) as harness:
        await until(lambda: "exit code 1" in harness.upstream("old").reason, "it has ended")
        lines = harness.upstream("old").stderr_tail.lines(Redactor([]))
        assert {line.text for line in lines if line.kind == "stderr"} == {"I am closed."}
    logged = [record.getMessage() for record in caplog.records if record.name == "aggregator.server.old"]
    assert set(logged) == {"I am closed."}
