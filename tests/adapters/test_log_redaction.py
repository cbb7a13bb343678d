"""The log of a program that has the aggregator inside itself."""

import logging
from pathlib import Path
from typing import Final

import pytest

from aggregator.adapters.inprocess import redacted_log
from aggregator.adapters.langchain import open_tools
from aggregator.redaction.redactor import Redactor
from tests.adapters.config_folder import ConfigFolder, recording_server
from tests.peers.toolbox import Json

SECRET: Final = "s3cr3t/value+x"
OURS: Final = logging.getLogger("aggregator.upstream.upstream")
THEIRS: Final = logging.getLogger("program")


class RecordingHandler(logging.Handler):
    """A program's own handler, wherever it put it."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        self.lines.append(self.format(record))


def test_no_secret_in_any_form() -> None:
    """Proves: D9, E8. Neither in messages, arguments nor exceptions; what the program itself logs is its own affair."""
    kept = RecordingHandler()
    OURS.addHandler(kept)
    THEIRS.addHandler(kept)
    before = logging.getLogRecordFactory()
    try:
        with redacted_log(Redactor([SECRET])):
            OURS.error("key %s, and %r", SECRET, ["s3cr3t%2Fvalue%2Bx"])
            try:
                raise ValueError(f"no {SECRET}")
            except ValueError:
                OURS.exception("failed")
            THEIRS.error("mine: %s", SECRET)
            with redacted_log(Redactor(["another secret"])):
                OURS.error("both: %s, another secret", SECRET)
        OURS.error("after: 100%")
    finally:
        OURS.removeHandler(kept)
        THEIRS.removeHandler(kept)
    assert logging.getLogRecordFactory() is before
    plain, failed, mine, both, after = kept.lines
    assert plain == "key [redacted], and ['[redacted]']"
    assert failed.startswith("failed\nTraceback")
    assert failed.endswith("ValueError: no [redacted]")
    assert kept.records[1].exc_info is None
    assert (mine, both, after) == (f"mine: {SECRET}", "both: [redacted], [redacted]", "after: 100%")


def test_whoever_sets_a_factory_meanwhile_keeps_it() -> None:
    """Contexts may end in any order."""
    before = logging.getLogRecordFactory()
    try:
        with redacted_log(Redactor([SECRET])):
            ours = logging.getLogRecordFactory()
            logging.setLogRecordFactory(lambda *args, **kwargs: ours(*args, **kwargs))
            theirs = logging.getLogRecordFactory()
        assert logging.getLogRecordFactory() is theirs
    finally:
        logging.setLogRecordFactory(before)


async def test_the_secrets_of_a_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: E8, E9. A server that cannot be reached and an entry that is wrong are told of, without the key."""
    monkeypatch.setenv("FAR_KEY", SECRET)
    far: Json = {"url": "http://127.0.0.1:9/mcp?key=${FAR_KEY}", "type": "http"}
    servers: Json = {"far": far, "odd": {"command": 3}, "shop": recording_server("get").config_entry()}
    with caplog.at_level(logging.DEBUG, "aggregator"):
        async with open_tools(ConfigFolder(tmp_path, servers)) as tools:
            assert [tool.name for tool in tools] == ["shop__get"]
            OURS.warning("told by %s", SECRET)
    assert "odd" in caplog.text
    assert "far" in caplog.text
    assert "told by [redacted]" in caplog.text
    assert SECRET not in caplog.text
