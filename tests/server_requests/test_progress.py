"""Progress: rising, never a flood, and the last report before the result."""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.gateway.ask.upstream_caller import RequestCaller
from aggregator.gateway.calls.progress import BURST, RATE, Progress
from aggregator.gateway.host import Host
from tests.end_to_end.server_harness import FRONTENDS, ServerHarness
from tests.peers.toolbox import Json

FLOOD: Final = 200


class RecordingChannel:
    """A back channel that records progress, with a clock that only the test moves."""

    request_id = 1

    def __init__(self) -> None:
        self.reports: list[tuple[float, float]] = []
        self.now = 0.0

    def notify(self, method: str, params: Any) -> None:
        assert method == "notifications/progress"
        assert params["progressToken"] == "t"
        self.reports.append((self.now, params["progress"]))

    async def ask(self, method: str, params: Json) -> Json:
        raise AssertionError("nobody asks")


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time is the test's."""

    heard: RecordingChannel

    def time(self) -> float:
        return self.heard.now


def run(reports: list[tuple[float, float]], end: str = "flush") -> RecordingChannel:
    """Return the progress that a host receives of reports at these times, the last being the end of the request."""
    heard = RecordingChannel()
    loop = Clock()
    loop.heard = heard

    async def play() -> None:
        host = Host("sse", "canonical", version="2025-11-25")
        progress = Progress(RequestCaller(host, "2025-11-25", {"_meta": {"progressToken": "t"}}, heard))
        for at, done in reports:
            # Timers that were due by then.
            while progress._timer is not None and progress._timer.when() <= at:
                heard.now = progress._timer.when()
                progress._timer.cancel()
                progress._due()
            heard.now = at
            progress({"progress": done, "x": 1})
        getattr(progress, end)()
        assert progress._timer is None

    try:
        loop.run_until_complete(play())
    finally:
        loop.close()
    return heard


def moments() -> Iterator[Any]:
    yield st.lists(
        st.tuples(st.floats(0, 0.2), st.floats(-10, 10, allow_nan=False)),
        max_size=200,
    )


@given(next(moments()))
def test_progress_rises_and_is_bounded(steps: list[tuple[float, float]]) -> None:
    """In any window so many at most, each higher than the one before, and the highest is always among them."""
    at, reports = 0.0, []
    for pause, done in steps:
        at += pause
        reports.append((at, done))
    heard = run(reports).reports
    values = [value for _, value in heard]
    assert values == sorted(set(values))
    rising = [done for place, (_, done) in enumerate(reports) if all(done > before for _, before in reports[:place])]
    assert set(values) <= set(rising)
    assert values[-1:] == rising[-1:]
    for first, (start, _) in enumerate(heard):
        for last, (stop, _) in enumerate(heard[first:], first):
            # One more may come with the result.
            assert last - first + 1 <= BURST + (stop - start) * RATE + 2


def test_a_request_without_a_result_says_nothing_more() -> None:
    """What was held back is not sent any more."""
    reports = [(0.0, float(at)) for at in range(100)]
    assert [value for _, value in run(reports, "drop").reports] == [float(at) for at in range(int(BURST))]
    assert run(reports).reports[-1] == (0.0, 99.0)


@pytest.mark.parametrize("senseless", [None, "3", True, [1], {}])
def test_what_is_no_progress_is_not_passed_on(senseless: Any) -> None:
    """It must be a number (S/basic/patterns/progress)."""
    assert run([(0.0, 1.0), (0.1, senseless), (0.2, 2.0)]).reports == [(0.0, 1.0), (0.2, 2.0)]


@pytest.mark.parametrize("frontend", FRONTENDS)
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("upstream", ["stdio_modern", "stdio_legacy", "http_modern", "http_legacy", "sse"])
async def test_a_flood_comes_as_a_few_and_the_last(
    harness: ServerHarness, frontend: str, version: str, upstream: str
) -> None:
    """Of hundreds some tens, and the last before the result."""
    async with harness.host(frontend, version) as host:
        await host.call(f"{upstream}.steps", {"count": FLOOD}, progressToken="mine").result()
        heard = [m["params"] for m in host.inbox.messages if m.get("method") == "notifications/progress"]
    assert heard[-1]["progress"] == FLOOD
    assert {params["progressToken"] for params in heard} == {"mine"}
    done = [params["progress"] for params in heard]
    assert done == sorted(set(done))
    assert BURST <= len(done) < FLOOD / 2


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_steps_back_are_left_out(harness: ServerHarness, version: str) -> None:
    """A host never sees less than before."""
    async with harness.host("http", version) as host:
        call = host.call("stdio_legacy.steps", {"steps": [3, 1, 3, 2, 4.5, 4]}, progressToken=1)
        await call.result()
        heard = [m["params"]["progress"] for m in host.inbox.messages if m.get("method") == "notifications/progress"]
    assert heard == [3, 4.5]
