"""Arguments of every kind: checked, put right and sent as in the pipeline."""

from pathlib import Path
from typing import Any, Final

import pytest

from tests.direct.direct_harness import DIRECT, HOST_KINDS, child, direct_harness
from tests.peers.toolbox import Json
from tests.policy.build import book


def nested(levels: int) -> Any:
    """A value of so many levels."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


ARGUMENTS: Final[dict[str, Json]] = {
    "plain": {"n": 1},
    "text for a number": {"n": "1"},
    "no number": {"n": "one"},
    "a large number": {"n": 10**30},
    "the largest number": {"n": 2**64},
    "a fraction without one": {"n": 1.0},
    "half of a character": {"n": 1, "a": "\ud800"},
    "half of a character in a name": {"n": 1, "\ud800": 1},
    "a zero character": {"n": 1, "\0": "\0"},
    "many": {"n": 1, **{f"a{number}": number for number in range(100)}},
    "very many": {"n": 1, "a": list(range(10_500))},
    "a long text": {"n": 1, "a": "x" * 70_000},
    "deep": {"n": 1, "a": nested(50)},
    "deeper": {"n": 1, "a": nested(300)},
    "as deep as can be read": {"n": 1, "a": nested(900)},
    "a look-alike": {"n": 1, "N": 100},
    "another spelling": {"n": 1, "PLACE": "x"},
    "another look-alike": {"n": 1, "ｎ": 100},
    "too large": {"n": 100},
    "an empty name": {"n": 1, "": None},
}


@pytest.mark.parametrize("kind", [HOST_KINDS[0], HOST_KINDS[3]], ids="-".join)
async def test_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, str]) -> None:
    """A6, D8: what is refused is refused in the same words, what is sent is the same."""
    servers = {"old": child("legacy"), "strict": child("modern", coerce=False), "ruled": child("legacy")}
    rules = {"properties": {"n": {"maximum": 50}}}
    async with direct_harness(tmp_path, monkeypatch, servers, policies=tmp_path / "policies") as it:
        assert it.app.live is not None
        it.app.live.rulebook = book({"agents": {"local": {"allow": ["*"], "arguments": {"ruled.*": rules}}}})
        async with it.host(*kind) as host:
            for tool in ("old.any", "old.number", "strict.number", "ruled.number", "old.headed", "strict.headed"):
                for arguments in ARGUMENTS.values():
                    await it.compare(host, {"name": tool, "arguments": arguments})
        assert DIRECT in it.ways
        it.nothing_is_left()
