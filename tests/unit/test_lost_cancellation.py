"""An upstream that is stopped at the very moment its server answers stops all the same."""

import asyncio
from typing import Any, cast

import pytest

from aggregator.domain.errors import RpcError
from aggregator.upstream.connection import Connection
from aggregator.upstream.sessions.negotiate import negotiate


class _Answering:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    def use_version(self, version: str) -> None:
        """Ignore the revision: no test depends on it."""

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return await self.answer


async def test_a_cancellation_that_comes_with_the_answer_is_not_lost() -> None:
    connection = _Answering()
    asking = asyncio.ensure_future(negotiate("s", cast(Connection, connection), "auto"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    connection.answer.set_exception(RpcError(-32601, "Method not found"))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
