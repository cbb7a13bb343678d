"""Progress of a call that no task works on: it starts the time limit anew as it does in the pipeline."""

from math import inf
from pathlib import Path
from typing import Final

import pytest

from aggregator.upstream.sessions.direct_request import DirectRequest
from aggregator.upstream.sessions.request import UpstreamRequest
from aggregator.upstream.upstream import Upstream
from tests.direct.direct_harness import DIRECT, HOST_KINDS, ask, child, direct_harness, text
from tests.direct.test_results import REPORT
from tests.peers.toolbox import Json

LONGEST: Final = 90.0
LIMITS: Final = {"max_timeout": LONGEST}
# By the fields of a server: whether progress starts the limit of its calls anew.
EXTENDS: Final[dict[str, tuple[Json, bool]]] = {
    "default": ({}, True),
    "set": ({"timeout": 25}, False),
    "set-and-resets": ({"timeout": 25, "limits": {**LIMITS, "timeout_resets_on_progress": True}}, True),
    "never": ({"limits": {**LIMITS, "timeout_resets_on_progress": False}}, False),
    "of-a-tool": ({"tools": {"timeout": {"an*": 25}}}, False),
}


def _untimed() -> Json:
    """The entry of a child with the default time limit."""
    return {name: value for name, value in child("legacy").items() if name != "timeout"}


@pytest.mark.parametrize("kind", HOST_KINDS, ids="-".join)
async def test_progress_extends_a_call_without_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]
) -> None:
    """B4: up to `limits.max_timeout` after the call began, wanted by the host or not; a limit that was set holds."""
    begun: list[tuple[float | None, DirectRequest]] = []
    begin = Upstream.begin

    def noted(upstream: Upstream, request: UpstreamRequest, running: DirectRequest, extends: float | None) -> bool:
        begun.append((running.deadline, running))
        return begin(upstream, request, running, extends)

    monkeypatch.setattr(Upstream, "begin", noted)
    servers = {name: {**_untimed(), "limits": LIMITS, **fields} for name, (fields, _) in EXTENDS.items()}
    async with direct_harness(tmp_path, monkeypatch, servers) as it, it.host(*kind) as host:
        for server, (fields, extends) in EXTENDS.items():
            for writes in ([text("a")], [REPORT % 1, text("a")]):
                await ask(host, {"name": f"{server}.any", "arguments": {"writes": writes}})
            assert it.way == DIRECT
            deadline, request = begun[-1]
            assert deadline is not None
            limit = 25 if "timeout" in fields or "tools" in fields else 30
            assert request.extended is extends, server
            assert request.latest == (deadline - limit + LONGEST if extends else inf), server
            assert (request.deadline != deadline) is extends, server
