"""The pipe to a host that no event loop can wait for: bytes come in order, and whoever does not read blocks nothing."""

import asyncio
import os
from collections.abc import Iterator
from typing import BinaryIO

import pytest

from aggregator.wire.thread_pipe import ThreadPipe
from tests.polling import until


class Reported(asyncio.BaseProtocol):
    def __init__(self) -> None:
        self.paused = False
        self.lost: list[Exception | None] = []

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


@pytest.fixture
def ends() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering=0) as ours, os.fdopen(writer, "wb", buffering=0) as theirs:
        yield ours, theirs


async def test_bytes_come_in_order_and_the_end_is_told(ends: tuple[BinaryIO, BinaryIO]) -> None:
    """All that was written before the close is written."""
    reported = Reported()
    pipe = ThreadPipe(reported, ends[1])
    for number in range(100):
        pipe.write(b"%d\n" % number)
    pipe.close()
    assert pipe.is_closing()
    pipe.write(b"too late\n")
    await until(lambda: reported.lost == [None], "the end is told")
    assert pipe.get_write_buffer_size() == 0
    assert os.read(ends[0].fileno(), 65_536) == b"".join(b"%d\n" % number for number in range(100))


async def test_a_reader_that_stops_pauses_the_writer(ends: tuple[BinaryIO, BinaryIO]) -> None:
    """The loop goes on; once the reader has taken what waits, so does the writer."""
    reported = Reported()
    pipe = ThreadPipe(reported, ends[1])
    pipe.set_write_buffer_limits(100_000)
    pipe.write(b"x" * 1_000_000)
    assert reported.paused
    assert pipe.get_write_buffer_size() == 1_000_000
    read = 0
    while read < 1_000_000:
        read += len(await asyncio.to_thread(os.read, ends[0].fileno(), 65_536))
    await until(lambda: not reported.paused, "the writer goes on")
    assert pipe.get_write_buffer_size() == 0
    pipe.close()
    await until(lambda: reported.lost == [None], "the end is told")


async def test_a_host_that_never_reads_is_given_up(ends: tuple[BinaryIO, BinaryIO]) -> None:
    """The end is told at once, though the thread is still writing."""
    reported = Reported()
    pipe = ThreadPipe(reported, ends[1])
    pipe.write(b"x" * 1_000_000)
    pipe.abort()
    assert reported.lost == [None]
    assert pipe.get_write_buffer_size() == 0
    # So that the thread ends.
    ends[0].close()
    assert reported.lost == [None]


async def test_a_host_that_has_gone_is_the_end(ends: tuple[BinaryIO, BinaryIO]) -> None:
    reported = Reported()
    pipe = ThreadPipe(reported, ends[1])
    ends[0].close()
    pipe.write(b"x")
    await until(lambda: len(reported.lost) == 1, "the end is told")
    assert isinstance(reported.lost[0], BrokenPipeError)
    pipe.write(b"y")
    assert pipe.get_write_buffer_size() == 0
