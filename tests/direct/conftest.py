"""Calls of a tool by its name, and through `call_tool`."""

import pytest

from tests.direct import direct_harness


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no call become a slow one; tests of slow calls have a fixture of this name."""
    direct_harness.take_time(monkeypatch)


@pytest.fixture(params=[None, "call_tool"], ids=["by name", "call_tool"])
def through(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """Have hosts call every tool by its name, and again through a meta tool, which changes nothing else."""
    found: str | None = request.param
    monkeypatch.setattr(direct_harness, "THROUGH", found)
    return found
