"""The bytes of an answer: its head, the header fields that every answer has, and its body."""

import asyncio

from aggregator.frontends.web.answer import AnswerWriter


class _Sent(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.parts.append(bytes(data))


async def test_a_whole_answer_has_the_fields_of_its_time() -> None:
    """The server below gives another list each second."""
    sent = _Sent()
    writer = AnswerWriter(asyncio.get_running_loop(), sent)
    first = [(b"date", b"Thu, 01 Jan 2026 00:00:00 GMT"), (b"x-more", b"1")]
    second = [(b"date", b"Thu, 01 Jan 2026 00:00:01 GMT")]
    for lines in (first, first, second, first):
        writer.write_json(200, lines, b"{}")
    assert [part.split(b"\r\n") for part in sent.parts] == [
        [
            b"HTTP/1.1 200 OK",
            *(name + b": " + value for name, value in lines),
            *(b"content-length: 2", b"content-type: application/json", b"", b"{}"),
        ]
        for lines in (first, first, second, first)
    ]


async def test_a_head_leaves_with_what_follows_it_or_alone() -> None:
    sent = _Sent()
    writer = AnswerWriter(asyncio.get_running_loop(), sent)
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    assert sent.parts == []
    writer.write(b"body")
    writer.write(b"more")
    assert sent.parts == [b"HTTP/1.1 200 OK\r\n\r\nbody", b"more"]
    writer.write(b"HTTP/1.1 202 Accepted\r\n\r\n")
    await asyncio.sleep(0)
    writer.write(b"HTTP/1.1 202 Accepted\r\n\r\n")
    writer.write_json(200, [], b"{}")
    assert [part[9:12] for part in sent.parts[2:]] == [b"202", b"202", b"200"]
