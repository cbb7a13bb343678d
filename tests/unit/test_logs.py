"""The log: one line per event, for people or as JSON, and no secret in any of it."""

import asyncio
import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aggregator.cli.runtime.logs import LogFormatter, start_logging
from aggregator.config.servers.secrets import secrets_in
from aggregator.domain.call_record import LogContext, TraceContext, current_call, current_trace
from aggregator.redaction.redactor import REDACTED, Redactor

from .strategies import ANY_TEXT

SECRET = "sk-live-0123456789"


def _record(
    message: str, *values: Any, error: BaseException | None = None, level: int = logging.INFO
) -> logging.LogRecord:
    trace = (type(error), error, error.__traceback__) if error is not None else None
    return logging.LogRecord("aggregator.upstream.upstream", level, __file__, 1, message, values, trace)


def _raised(message: str) -> ValueError:
    try:
        raise ValueError(message)
    except ValueError as error:
        return error


@pytest.mark.parametrize("as_json", [False, True])
def test_secrets_are_taken_out_of_messages_and_exceptions(as_json: bool) -> None:
    """Proves: D1, E8"""
    lines = LogFormatter([SECRET], as_json=as_json)
    text = lines.format(_record("%s at ?key=%s&x=1", SECRET, SECRET, error=_raised(f"bad token {SECRET}!")))
    assert SECRET not in text
    assert text.count(REDACTED) == 3
    assert "ValueError" in text
    assert "&x=1" in text


@pytest.mark.parametrize("as_json", [False, True])
def test_no_reason_is_empty(as_json: bool) -> None:
    """An exception without a text is named by its type; one that has a text, and other empty texts, stay."""
    lines = LogFormatter((), as_json=as_json)
    assert "not seen: TimeoutError" in lines.format(_record("%s are not seen: %s", "changes", TimeoutError()))
    assert "not seen: KeyError, 3" in lines.format(_record("not seen: %s, %d", KeyError(), 3))
    assert "not seen: why" in lines.format(_record("not seen: %s", ValueError("why")))
    record = _record("[%s] %s", "", OSError())
    assert "[] OSError" in lines.format(record)
    assert isinstance(record.args, tuple)
    assert isinstance(record.args[1], OSError), "other handlers get the record as it was"


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("secret", ['pa"ss\\word', "pass\tword", "pässwörd", "p\nassword", "it's a secret"])
@pytest.mark.parametrize("message", ["%s", "%r", "{'key': %r}"])
def test_a_secret_is_found_however_it_is_shown(as_json: bool, secret: str, message: str) -> None:
    """`%r` and error messages escape quotes, backslashes and what cannot be printed."""
    text = LogFormatter([secret], as_json=as_json).format(_record(message, secret))
    assert REDACTED in text
    assert "word" not in text
    assert "secret" not in text


@pytest.mark.parametrize("address", ["https://e.com/sse?key=abc%2Fdef%3D123", "https://u:pa%2Fss%3Dword@e.com/"])
def test_a_secret_of_an_address_is_found_as_it_stands_there(address: str) -> None:
    """Proves: D1, E8"""
    text = LogFormatter(secrets_in({"url": address}), as_json=False).format(_record("cannot reach %s", address))
    assert "%2F" not in text
    assert REDACTED in text


def test_the_longest_secret_is_taken_out_whole() -> None:
    text = LogFormatter([SECRET, SECRET[:10], SECRET + "-and-more"], as_json=False).format(
        _record(SECRET + "-and-more")
    )
    assert text.endswith(f": {REDACTED}")


def test_a_secret_is_text_and_no_pattern() -> None:
    lines = LogFormatter(["a.b*c+d", "(((((("], as_json=False)
    assert lines.format(_record("aXbbbcd a.b*c+d ((((((")).endswith(f"aXbbbcd {REDACTED} {REDACTED}")


def test_values_too_short_to_be_secrets_do_not_eat_the_log() -> None:
    assert LogFormatter(["", "a", "12345"], as_json=False).format(_record("a 12345")).endswith("a 12345")


@given(ANY_TEXT, ANY_TEXT)
def test_every_json_line_is_one_json_object(message: str, error: str) -> None:
    assume("://" not in message)  # the query of an address may be a secret
    lines = LogFormatter([SECRET], as_json=True)
    for record in (_record("%s", message), _record("%s", message, error=_raised(error))):
        text = lines.format(record)
        assert len(text.splitlines()) == 1 or "\n" not in text
        event = json.loads(text)
        assert event["message"] == message
        assert (event["level"], event["logger"]) == ("info", "aggregator.upstream.upstream")
        assert ("exception" in event) == (record.exc_info is not None)


def test_the_time_of_a_json_line_says_its_zone() -> None:
    event = json.loads(LogFormatter([], as_json=True).format(_record("x")))
    assert len(event["time"]) == len("2026-07-28T12:00:00.000+0000")
    assert set(event) == {"time", "level", "logger", "message"}


def test_a_line_for_people() -> None:
    text = LogFormatter([], as_json=False).format(_record("hello %s", "you", level=logging.WARNING))
    assert text[12:] == " WARNING upstream.upstream: hello you"


def test_an_exception_stands_below_its_line() -> None:
    first, *trace = LogFormatter([], as_json=False).format(_record("failed", error=_raised("why"))).splitlines()
    assert first.endswith("failed")
    assert trace[0].startswith("Traceback")
    assert trace[-1] == "ValueError: why"


@given(st.text("ab\r\n\x1b\x85\u2028\x07[", min_size=1, max_size=12))
def test_what_a_server_says_can_neither_forge_lines_nor_move_the_cursor(said: str) -> None:
    """Messages carry text of servers and hosts: stderr lines, log notifications, names."""
    text = LogFormatter([], as_json=False).format(_record("%s says: %s", "srv", said))
    assert len(text.splitlines()) == 1
    assert "\x1b" not in text
    assert "\x07" not in text


TRACE = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")


def test_a_line_says_which_call_it_belongs_to() -> None:
    """Proves: D9"""
    as_json, as_text = LogFormatter([], as_json=True), LogFormatter([], as_json=False)
    ids = {"trace_id": TRACE.trace_id, "span_id": TRACE.span_id}
    plain = {"level": "info", "logger": "aggregator.upstream.upstream", "message": "x"}
    trace = current_trace.set(TRACE)
    assert {**json.loads(as_json.format(_record("x"))), "time": ""} == {"time": "", **plain, **ids}
    assert as_text.format(_record("x"))[12:] == " INFO    upstream.upstream [trace 0af76519]: x"
    current_trace.reset(trace)
    call = current_call.set(LogContext(TRACE, agent="bot", server="maps", tool="maps.geocode"))
    about = {"agent": "bot", "server": "maps", "tool": "maps.geocode"}
    assert {**json.loads(as_json.format(_record("x"))), "time": ""} == {"time": "", **plain, **ids, **about}
    current_call.reset(call)


def test_a_line_says_what_else_is_known() -> None:
    """Proves: D9. By `extra`, or by the logger of what a server prints."""
    lines = LogFormatter([], as_json=True)
    record = logging.getLogger("aggregator.gateway").makeRecord(
        "aggregator.gateway", logging.INFO, __file__, 1, "x", (), None, extra={"agent": "bot", "tool": "a.b"}
    )
    event = json.loads(lines.format(record))
    assert (event["agent"], event["tool"]) == ("bot", "a.b")
    printed = logging.LogRecord("aggregator.server.git.hub", logging.INFO, __file__, 1, "x", (), None)
    event = json.loads(lines.format(printed))
    assert (event["server"], "agent" in event, "tool" in event) == ("git.hub", False, False)


@pytest.mark.parametrize("as_json", [False, True])
def test_what_looks_like_a_secret_is_not_shown_either(as_json: bool) -> None:
    """Proves: D9, E8. Queries and headers, in messages and in exceptions of libraries."""
    error = _raised("401, message='no', url='https://e.com/x?user=me', headers=<CIMultiDictProxy('X-Any': 'value-1')>")
    text = LogFormatter([], as_json=as_json).format(_record("GET %s", "https://me:pw@e.com/mcp?q=cats", error=error))
    assert not [shown for shown in ("me:pw", "cats", "user=me", "value-1") if shown in text]
    assert text.count(REDACTED) == 4


def test_a_redactor_can_be_shared() -> None:
    redact = Redactor(patterns=False)
    lines = LogFormatter(redact, as_json=False)
    redact.add([SECRET])
    assert lines.format(_record("%s https://e.com/?q=1", SECRET)).endswith(f": {REDACTED} https://e.com/?q=1")


def test_a_message_without_end_is_cut_and_no_secret_shows_at_the_cut() -> None:
    """Proves: D9"""
    for before in range(65_500, 65_540):
        text = LogFormatter([SECRET], as_json=False).format(_record("%s", "." * before + SECRET + "." * 100_000))
        assert len(text) < 70_000
        assert text.endswith(f"({before + len(SECRET) + 100_000} characters)")
        assert SECRET[:6] not in text


def test_the_stack_stands_below_too() -> None:
    record = _record("here")
    record.stack_info = f"Stack (most recent call last):\n  in {SECRET}"
    first, *below = LogFormatter([SECRET], as_json=False).format(record).splitlines()
    assert first.endswith("here")
    assert below == ["Stack (most recent call last):", f"  in {REDACTED}"]


@pytest.fixture
def _own_log() -> Iterator[None]:
    """The loggers as they were."""
    root, own = logging.getLogger(), logging.getLogger("aggregator")
    handlers, levels = root.handlers[:], (root.level, own.level)
    hooks = (sys.excepthook, threading.excepthook, sys.unraisablehook)
    yield
    sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    own.setLevel(levels[1])
    for name in ("uvicorn.error", "aiohttp.access", "mcp"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.mark.usefixtures("_own_log")
def test_everything_goes_to_stderr_from_the_level_on(capsys: pytest.CaptureFixture[str]) -> None:
    log = start_logging("warning", as_json=True, hide=[SECRET])
    log.info("not told")
    log.warning("told %s", SECRET)
    logging.getLogger("elsewhere").error("told too")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [json.loads(line)["message"] for line in captured.err.splitlines()] == [f"told {REDACTED}", "told too"]


@pytest.mark.usefixtures("_own_log")
def test_debug_is_ours_and_not_the_libraries(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("debug", as_json=False, hide=[]).debug("ours")
    logging.getLogger("asyncio").debug("theirs")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].endswith("ours")
    assert sys.stderr is not None


@pytest.mark.usefixtures("_own_log")
def test_levels_per_component(capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: D9. The next start takes those of the last back."""
    start_logging("warning", False, [], {"upstream": "debug", "server.chatty": "error"})
    for name in ("upstream.upstream", "gateway.pipeline", "server.chatty", "server.other"):
        logging.getLogger(f"aggregator.{name}").debug("debug %s", name)
        logging.getLogger(f"aggregator.{name}").warning("warning %s", name)
    told = [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()]
    assert told == [
        "debug upstream.upstream",
        "warning upstream.upstream",
        "warning gateway.pipeline",
        "warning server.other",
    ]
    start_logging("warning", False, [])
    logging.getLogger("aggregator.upstream.upstream").debug("no more")
    logging.getLogger("aggregator.server.chatty").warning("again")
    assert [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()] == ["again"]


@pytest.mark.usefixtures("_own_log")
def test_a_message_that_cannot_be_written_does_not_show_its_values(capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: D9. Python would print them, secrets and all."""
    log = start_logging("info", True, [SECRET])
    log.info("%d items", SECRET)
    log.info("%s %s", SECRET)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["logger"] for line in lines] == ["aggregator.cli.runtime.logs"] * 2
    assert "(TypeError): %d items" in lines[0]["message"]
    assert SECRET not in json.dumps(lines)


@pytest.mark.usefixtures("_own_log")
@pytest.mark.filterwarnings("always::UserWarning")
async def test_what_python_would_print_goes_the_same_way(capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: D9. Exceptions nobody caught, in the program, in a thread, in a task or where none can be raised."""
    sys.excepthook, threading.excepthook = sys.__excepthook__, threading.__excepthook__
    sys.unraisablehook = sys.__unraisablehook__
    start_logging("info", True, [SECRET])
    warnings.warn(f"warned of {SECRET}", stacklevel=1)
    error = _raised(f"raised with {SECRET}")
    sys.excepthook(ValueError, error, error.__traceback__)
    thread = threading.Thread(target=_raise, args=(f"threaded with {SECRET}",), name="worker")
    thread.start()
    thread.join()
    sys.unraisablehook(_Unraisable(error))  # type: ignore[arg-type]
    asyncio.get_running_loop().call_exception_handler({"message": f"never retrieved, {SECRET}", "exception": error})
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["logger"] for line in lines] == ["py.warnings", "aggregator", "aggregator", "aggregator", "asyncio"]
    assert [line["message"].partition(",")[0] for line in lines[1:]] == [
        "stopped by a bug",
        "the thread worker was stopped by a bug",
        "ignored in a finalizer",
        "never retrieved",
    ]
    assert all(REDACTED in json.dumps(line) for line in lines)
    assert SECRET not in json.dumps(lines)


class _Unraisable:
    """The arguments of Python's hook for an exception that it cannot raise."""

    err_msg, object = "ignored in a finalizer", None

    def __init__(self, error: BaseException) -> None:
        self.exc_type, self.exc_value, self.exc_traceback = type(error), error, error.__traceback__


def _raise(message: str) -> None:
    raise ValueError(message)
