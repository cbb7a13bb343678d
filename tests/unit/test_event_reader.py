"""Server-sent events: however the bytes are cut, the same events come out; against a small reader of whole texts."""

import re
from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aggregator.wire.sse import KEEP_ALIVE, Event, EventReader, EventTooLarge, format_event

from .strategies import cut

LIMIT = 10_000
_LINES = """data: one|data:two|data|data:|data:  three| data: x|data: {"a":1}|event: ping|event:|id: 7|id|id: a\0b
retry: 30|retry: -1|retry: x|: comment|:|other: x|\ufeff|id: 地|"""
PIECES = st.sampled_from(
    [*(line.encode() for line in re.split(r"[|\n]", _LINES)), b"data: \xff\xfe", b"event: \xff", b"\xef\xbb\xbfdata"]
)
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])
STREAMS = st.lists(st.tuples(PIECES, ENDS), max_size=25).map(lambda lines: b"".join(b"".join(line) for line in lines))
BYTES = st.one_of(STREAMS, st.binary(max_size=40), st.text("\r\n:dat ", max_size=30).map(str.encode))
CUTS = st.lists(st.integers(0, 500), max_size=12)


def read(chunks: Iterable[bytes], limit: int = LIMIT) -> list[Event]:
    """Return every event that the reader makes of the chunks."""
    reader = EventReader(limit)
    return [event for chunk in chunks for event in reader.feed(chunk)]


def reference(stream: bytes) -> list[Event]:
    """Section 9.2.6 of the standard on the whole text; an id or a retry alone makes an event here, on purpose."""
    events: list[Event] = []
    fields: dict[bytes, bytes] = {}
    data: list[bytes] = []
    # What follows the last line end is no line yet.
    for line in re.split(rb"\r\n|\n|\r", stream.removeprefix(b"\xef\xbb\xbf"))[:-1]:
        if line:
            name, _, value = line.partition(b":")
            value = value[1:] if value.startswith(b" ") else value
            if name == b"data":
                data.append(value)
            elif name == b"event" or (name == b"id" and b"\0" not in value) or (name == b"retry" and value.isdigit()):
                fields[name] = value
            continue
        if data or b"id" in fields or b"retry" in fields:
            name = fields.get(b"event", b"") or b"message"
            id_ = fields[b"id"].decode("utf-8", "replace") if b"id" in fields else None
            retry = int(fields[b"retry"]) if b"retry" in fields else None
            events.append(Event(name.decode("utf-8", "replace"), b"\n".join(data), id_, retry))
        fields, data = {}, []
    return events


@given(BYTES, CUTS)
@example(b"data: a\r\n\r\n", [8])
@example(b"data: a\r\rdata: b\r\r", [8, 8])
@example(b"data: a\r\ndata: b\r\n\r\n", [8, 8])
@example(b"\xef\xbb\xbfdata: a\n\n", [1, 2])
def test_any_cut_of_the_bytes_gives_the_same_events(stream: bytes, places: list[int]) -> None:
    """Proves: C2, E2"""
    assert read(cut(stream, places)) == read([stream]) == reference(stream)


@given(BYTES)
def test_byte_by_byte(stream: bytes) -> None:
    assert read(bytes([byte]) for byte in stream) == reference(stream)


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_ending(end: bytes) -> None:
    stream = end.join(
        [b": hello", b"event: endpoint", b"data: /messages", b"", b"data: 1", b"data: 2", b"id: 9", b"", b""]
    )
    assert read([stream]) == [Event("endpoint", b"/messages"), Event("message", b"1\n2", "9")]


def test_what_was_not_ended_is_no_event() -> None:
    assert read([b"data: one\n\ndata: two\n"]) == [Event("message", b"one")]


def test_an_event_without_data_is_none_unless_it_moves_the_cursor() -> None:
    assert read([b"event: ping\n\n: still here\n\n"]) == []
    assert read([b"id: 7\nretry: 20\n\n"]) == [Event("message", b"", "7", 20)]


def test_a_byte_order_mark_counts_only_at_the_start() -> None:
    assert read([b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n"]) == [Event("message", b"a")]


@given(st.binary(max_size=60).filter(lambda data: not re.search(rb"[\r\n]", data)))
def test_what_is_written_is_read(data: bytes) -> None:
    assert read([KEEP_ALIVE + format_event(data, "message") + KEEP_ALIVE]) == [Event("message", data)]


@given(st.integers(0, 60), CUTS)
def test_the_limit_is_on_one_event_however_it_is_cut(size: int, places: list[int]) -> None:
    one = b"data:" + b"x" * size
    stream = (one + b"\n\n") * 3
    if len(one) <= 40:
        assert len(read(cut(stream, places), limit=40)) == 3
    else:
        with pytest.raises(EventTooLarge):
            read(cut(stream, places), limit=40)


@pytest.mark.parametrize(
    "stream", [b"data:" + b"x" * 100, b"data: x\n" * 20, b"x" * 100, b": comment\n" * 20, b"id: x\n" * 20]
)
def test_nothing_without_end_is_kept(stream: bytes) -> None:
    with pytest.raises(EventTooLarge):
        read([stream[at : at + 1] for at in range(len(stream))], limit=50)


def test_the_lines_of_one_chunk_are_counted_together() -> None:
    line = b"data:" + b"x" * 30 + b"\n"
    with pytest.raises(EventTooLarge):
        read([line * 2], limit=50)
    assert len(read([(line + b"\n") * 5], limit=50)) == 5


def test_keep_alives_never_add_up() -> None:
    assert read([KEEP_ALIVE] * 1_000, limit=50) == []


def test_a_retry_of_absurd_length_breaks_nothing() -> None:
    assert [event.data for event in read([b"retry: " + b"9" * 5_000 + b"\ndata: a\n\n"])] == [b"a"]


def test_a_large_event_in_small_chunks_is_joined_once() -> None:
    reader = EventReader(2**20)
    for _ in range(5_000):
        assert reader.feed(b"x" * 10) == []
    assert len(reader._line) == 5_000, "pieces are joined before the line ends: quadratic work"
    assert reader.feed(b"\n\n") == []
