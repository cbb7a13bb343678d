"""The last words of a server that is full of secrets: wherever they are cut, no half of a secret is shown."""

import sys

import pytest

from aggregator.cli.runtime.logs import LogFormatter
from aggregator.domain.errors import RpcError, UpstreamHttpStatus, UpstreamRefused, UpstreamUnavailable
from aggregator.domain.missing import LoginRequired
from aggregator.redaction.redactor import REDACTED, Redactor
from aggregator.upstream.faults import ServerFaults
from aggregator.upstream.lifecycle.failures import failure_of
from aggregator.upstream.process.stderr import ProbeReport
from aggregator.upstream.stderr_tail import LINES, SHOWN, SIZE, SpokenByServer, StderrTail
from aggregator.wire.peer import PeerGone
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


@pytest.mark.parametrize(
    ("text", "most"), [("x", LINES), ("x" * 5_000, LINES), ("", LINES), ("x" * SHOWN, SIZE // SHOWN)]
)
def test_the_last_lines_are_bounded_in_number_and_in_size(text: str, most: int) -> None:
    """D7: the oldest go first, and the last failure is known even so."""
    tail = StderrTail()
    tail.add("it cannot be started", "failure")
    for number in range(500):
        tail.add(f"{number} {text}")
    lines = tail.lines(str)
    assert sum(len(line.text) for line in lines) <= SIZE
    assert 0 < len(lines) <= most
    assert lines[-1].text.startswith("499 ")
    failure = tail.failure(str)
    assert failure is not None
    assert failure.text == "it cannot be started"


def test_the_lines_of_servers_that_are_gone_are_forgotten() -> None:
    spoken = SpokenByServer()
    for server in ("a", "b"):
        spoken.of(server).add("words")
    spoken.keep_only(["b", "c"])
    assert ([*spoken], len(spoken.of("b")), len(spoken.of("a"))) == (["b"], 1, 0)


def test_a_fault_of_a_list_is_logged_once_while_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    faults = ServerFaults("s")
    for fault in ("is odd", "is odd", "is odder", None, "is odd"):
        faults.note_list("tools/list", fault)
    assert [record.getMessage() for record in caplog.records] == ["s is odd", "s is odder", "s is odd"]


@pytest.mark.parametrize(
    ("error", "lasting"),
    [
        *(
            (UpstreamHttpStatus("s", "No.", status=status), status in (404, 410))
            for status in (400, 404, 410, 500, 503)
        ),
        (UpstreamRefused("s", "No.", status=401), True),
        (LoginRequired("s", "Connect an account."), True),
        (UpstreamUnavailable("s", "Away."), False),
        (RpcError(-32603, "No."), False),
        (PeerGone("it ended"), False),
        (TimeoutError(), False),
    ],
)
def test_which_failures_an_operator_has_to_mend(error: Exception, lasting: bool) -> None:
    """E9: these have longer pauses, and no grace."""
    server = server_config("s", type="http", url="http://a")
    assert failure_of(server, error).lasting is lasting
    assert failure_of(server, error, "exit code 1").died
    assert not failure_of(server, error).died
    assert failure_of(server_config("s", type="stdio", command="x"), PeerGone("it ended")).died
