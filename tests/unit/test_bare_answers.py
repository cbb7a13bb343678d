"""Which messages of a server are an answer that lacks only its version."""

from typing import Any

import pytest

from aggregator.wire.mending import is_bare_answer


@pytest.mark.parametrize(
    ("message", "bare"),
    [
        ({"id": 1, "result": {}}, True),
        ({"id": 1, "error": {"code": 1, "message": "x"}}, True),
        ({"id": 1, "result": None}, True),
        ({"id": 1, "result": {}, "method": None}, True),
        ({"id": 1}, False),
        ({}, False),
        ({"id": 1, "result": {}, "method": "ping"}, False),
        ({"error": "no such page", "status": 404}, False),
        ([], False),
    ],
)
def test_an_answer(message: Any, bare: bool) -> None:
    assert is_bare_answer(message) is bare
