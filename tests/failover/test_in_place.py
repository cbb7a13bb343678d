"""Calls that may have taken effect: the answer names what may be called in place; claims of trusted servers count."""

import json
from pathlib import Path
from typing import Any

import pytest

from aggregator.gateway.host import Host
from tests.faults.app_harness import Json, code_of, lines_of, raw_stdio, running_app

from .test_answering import records


@pytest.mark.parametrize(("tool", "code"), [("hang", "upstream_timeout"), ("leave", "outcome_unknown")])
@pytest.mark.parametrize("style", ["canonical", "compatible"])
async def test_an_answer_in_doubt_names_the_fallbacks(tool: str, code: str, style: Any) -> None:
    """C9: by the names that this host is listed; nothing was called in place, since the call may have run."""
    first = raw_stdio("first", fallbacks=("second",), timeout=1)
    async with running_app(first, raw_stdio("second"), raw_stdio("other")) as harness:
        harness.host = Host("test", style, version="2025-11-25")
        result = await harness.call(f"first.{tool}")
        assert code_of(result) == code
        name = f"second.{tool}" if style == "canonical" else f"second__{tool}"
        assert result["_meta"]["aggregator/error"]["instead"] == [name]
        assert f"names {name} to be called in its place" in result["content"][0]["text"]


async def test_a_fallback_that_is_away_or_is_none_is_not_named() -> None:
    """C9"""
    first = raw_stdio("first", fallbacks=("second",), timeout=1)
    async with running_app(first, raw_stdio("second", "complains"), raw_stdio("other", timeout=1)) as harness:
        for server in ("first", "other"):
            result = await harness.call(f"{server}.hang")
            assert code_of(result) == "upstream_timeout"
            assert "instead" not in result["_meta"]["aggregator/error"]
            assert "in its place" not in result["content"][0]["text"]


@pytest.mark.parametrize(
    ("trusted", "hints", "repeats"),
    [
        (True, {"idempotentHint": True}, True),
        (True, {"readOnlyHint": True}, True),
        (True, {"idempotentHint": False}, False),
        (True, {}, False),
        (False, {"idempotentHint": True}, False),
        (False, {"readOnlyHint": True}, False),
    ],
)
async def test_the_claim_of_a_trusted_server_counts_without_policies(
    trusted: bool, hints: Json, repeats: bool, tmp_path: Path
) -> None:
    """D8: the call of a server that ended is sent again, as with a policy file; of others it may have taken effect."""
    path, log = tmp_path / "tools.json", tmp_path / "log"
    path.write_text(json.dumps({"tools": [{"name": "leave", "inputSchema": {"type": "object"}, "annotations": hints}]}))
    server = raw_stdio("s", listing=path, log=log, trusted=trusted)
    async with running_app(server) as harness:
        kept = records(harness)
        result = await harness.call("s.leave")
        error = result["_meta"]["aggregator/error"]
        assert error["retryable"] is repeats
        assert (lines_of(log).count("leave") > 1) is repeats
        assert (kept[-1].sending.retries > 0) is repeats
