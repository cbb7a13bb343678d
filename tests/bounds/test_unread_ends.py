"""A host that reads nothing while its key ends: it is let go like all others, and no log tells of an error of ours."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from aggregator.domain.principal import Principal
from aggregator.gateway.revocation import RevocableTasks
from tests.bounds.web_harness import HELLO, head, web_harness
from tests.polling import until


async def test_a_stream_that_is_not_read_ends_with_its_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end cannot be sent, and callers are reviewed again meanwhile."""
    monkeypatch.setattr("aggregator.gateway.revocation.REVIEW_EVERY", 0.01)
    reviews = []

    def review(self: RevocableTasks, holds: Callable[[Principal], bool]) -> None:
        reviews.append(0)
        looked(self, holds)

    looked = RevocableTasks.review
    monkeypatch.setattr(RevocableTasks, "review", review)
    async with web_harness(tmp_path, agents=["one"], stall_timeout=0.5) as it, it.connect() as other:
        async with it.connect(small=True) as connection:
            connection.send(head("GET", "/sse", **it.key("one")))
            await connection.answer()
            path = (await connection.event()).decode()
            for number, (method, params) in enumerate(
                [("initialize", HELLO), ("tools/call", {"name": "up.echo", "arguments": {"size": 8_000_000}})]
            ):
                asking = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                assert (await other.ask(path, asking, **it.key("one"))).status == 202
            await until(lambda: it.refused("slow_reader") == 0 and it.upstream.count("tools/call") == 1, "it is called")
            await until(lambda: len(it.app.gateway.drain) == 0, "it is answered, and the answer waits for its host")
            it.app.access.keyring.use_policy_keys([])
            await until(lambda: len(it.app.gateway.revocation) == 0, "nothing goes on for that key")
            seen = len(reviews)
            await until(lambda: len(reviews) > seen + 5, "callers were reviewed again")
        await until(lambda: it.app.gateway.admission.in_use["streams"] == 0, "its place is free")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR or record.exc_info]
