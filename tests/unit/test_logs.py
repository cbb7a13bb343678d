"""The log: one line per event, for people or as JSON, and no secret in any of it."""

import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.cli.logs import Lines, start_logging
from aggregator.config.secrets import secrets_in
from aggregator.domain.redact import REDACTED

from .strategies import ANY_TEXT

SECRET = "sk-live-0123456789"


def _record(
    message: str, *values: Any, error: BaseException | None = None, level: int = logging.INFO
) -> logging.LogRecord:
    trace = (type(error), error, error.__traceback__) if error is not None else None
    return logging.LogRecord("aggregator.upstream.link", level, __file__, 1, message, values, trace)


def _raised(message: str) -> ValueError:
    try:
        raise ValueError(message)
    except ValueError as error:
        return error


@pytest.mark.parametrize("as_json", [False, True])
def test_secrets_are_taken_out_of_messages_and_exceptions(as_json: bool) -> None:
    """Proves: D1, E8"""
    lines = Lines([SECRET], as_json=as_json)
    text = lines.format(_record("%s at ?key=%s&x=1", SECRET, SECRET, error=_raised(f"bad token {SECRET}!")))
    assert SECRET not in text
    assert text.count(REDACTED) == 3
    assert "ValueError" in text
    assert "&x=1" in text


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("secret", ['pa"ss\\word', "pass\tword", "pässwörd", "p\nassword", "it's a secret"])
@pytest.mark.parametrize("message", ["%s", "%r", "{'key': %r}"])
def test_a_secret_is_found_however_it_is_shown(as_json: bool, secret: str, message: str) -> None:
    """`%r` and error messages escape quotes, backslashes and what cannot be printed."""
    text = Lines([secret], as_json=as_json).format(_record(message, secret))
    assert REDACTED in text
    assert "word" not in text
    assert "secret" not in text


@pytest.mark.parametrize("address", ["https://e.com/sse?key=abc%2Fdef%3D123", "https://u:pa%2Fss%3Dword@e.com/"])
def test_a_secret_of_an_address_is_found_as_it_stands_there(address: str) -> None:
    """Proves: D1, E8"""
    text = Lines(secrets_in({"url": address}), as_json=False).format(_record("cannot reach %s", address))
    assert "%2F" not in text
    assert REDACTED in text


def test_the_longest_secret_is_taken_out_whole() -> None:
    text = Lines([SECRET, SECRET[:10], SECRET + "-and-more"], as_json=False).format(_record(SECRET + "-and-more"))
    assert text.endswith(f": {REDACTED}")


def test_a_secret_is_text_and_no_pattern() -> None:
    lines = Lines(["a.b*c+d", "(((((("], as_json=False)
    assert lines.format(_record("aXbbbcd a.b*c+d ((((((")).endswith(f"aXbbbcd {REDACTED} {REDACTED}")


def test_values_too_short_to_be_secrets_do_not_eat_the_log() -> None:
    assert Lines(["", "a", "12345"], as_json=False).format(_record("a 12345")).endswith("a 12345")


@given(ANY_TEXT, ANY_TEXT)
def test_every_json_line_is_one_json_object(message: str, error: str) -> None:
    lines = Lines([SECRET], as_json=True)
    for record in (_record("%s", message), _record("%s", message, error=_raised(error))):
        text = lines.format(record)
        assert len(text.splitlines()) == 1 or "\n" not in text
        event = json.loads(text)
        assert event["message"] == message
        assert (event["level"], event["logger"]) == ("info", "aggregator.upstream.link")
        assert ("exception" in event) == (record.exc_info is not None)


def test_the_time_of_a_json_line_says_its_zone() -> None:
    event = json.loads(Lines([], as_json=True).format(_record("x")))
    assert len(event["time"]) == len("2026-07-28T12:00:00.000+0000")
    assert set(event) == {"time", "level", "logger", "message"}


def test_a_line_for_people() -> None:
    text = Lines([], as_json=False).format(_record("hello %s", "you", level=logging.WARNING))
    assert text[12:] == " WARNING upstream.link: hello you"


def test_an_exception_stands_below_its_line() -> None:
    first, *trace = Lines([], as_json=False).format(_record("failed", error=_raised("why"))).splitlines()
    assert first.endswith("failed")
    assert trace[0].startswith("Traceback")
    assert trace[-1] == "ValueError: why"


@given(st.text("ab\r\n\x1b\x85\u2028\x07[", min_size=1, max_size=12))
def test_what_a_server_says_can_neither_forge_lines_nor_move_the_cursor(said: str) -> None:
    """Messages carry text of servers and hosts: stderr lines, log notifications, names."""
    text = Lines([], as_json=False).format(_record("%s says: %s", "srv", said))
    assert len(text.splitlines()) == 1
    assert "\x1b" not in text
    assert "\x07" not in text


@pytest.fixture
def _own_log() -> Iterator[None]:
    """The loggers as they were."""
    root, own = logging.getLogger(), logging.getLogger("aggregator")
    handlers, levels = root.handlers[:], (root.level, own.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    own.setLevel(levels[1])
    for name in ("uvicorn.error", "aiohttp.access", "mcp"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.mark.usefixtures("_own_log")
def test_everything_goes_to_stderr_from_the_level_on(capsys: pytest.CaptureFixture[str]) -> None:
    log = start_logging("warning", as_json=True, secrets=[SECRET])
    log.info("not told")
    log.warning("told %s", SECRET)
    logging.getLogger("elsewhere").error("told too")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [json.loads(line)["message"] for line in captured.err.splitlines()] == [f"told {REDACTED}", "told too"]


@pytest.mark.usefixtures("_own_log")
def test_debug_is_ours_and_not_the_libraries(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("debug", as_json=False, secrets=[]).debug("ours")
    logging.getLogger("asyncio").debug("theirs")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].endswith("ours")
    assert sys.stderr is not None
