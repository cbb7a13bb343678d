"""What a server is told that asks on the stream of a request which no host has sent."""

import pytest

from aggregator.domain.bounds.time_limits import TimeLimits
from aggregator.domain.errors import RpcError
from aggregator.upstream.caller import RunningCall
from aggregator.upstream.sessions.back_channel import BackChannel


async def test_a_question_on_a_request_of_our_own() -> None:
    """The refusal says in plain words why no host is asked."""
    back_channel = BackChannel("s")
    with TimeLimits().limit(5) as clock:
        own = RunningCall(None, clock)
        back_channel.enter(own)
        with pytest.raises(RpcError) as refused:
            await back_channel.on_request("sampling/createMessage", {}, own)
        await back_channel.leave(own)
    assert refused.value.message == "No host is behind the request that this question belongs to."
