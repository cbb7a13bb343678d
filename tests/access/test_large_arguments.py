"""Calls that a person has to agree to, with very large arguments: nothing goes through these on the event loop."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.domain.text.invisible import escaped
from aggregator.gateway.ask import approval as consent
from aggregator.gateway.ask import argument_lines as shown_arguments
from aggregator.gateway.ask import input_required as inquiry
from aggregator.storage import digest
from tests.access.gateway_harness import FORMS, MODERN, GatewayHarness, error_data, make_config, tool
from tests.peers.back_channel import AnsweringBackChannel
from tests.peers.toolbox import Json

LARGE: Final[Json] = {"rows": [{"n": n, "note": "x" * 20} for n in range(2_000)]}
YES: Final[Json] = {"action": "accept", "content": {"allow": True}}


class Threads:
    """A record of the threads in which the watched functions ran."""

    def __init__(self) -> None:
        self.main: list[bool] = []

    def watching(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **more: Any) -> Any:
            self.main.append(threading.current_thread() is threading.main_thread())
            return work(*args, **more)

        return watched


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Threads:
    watched = Threads()
    for module, name in (
        (consent, "argument_digest"),
        (consent, "shown_arguments"),
        (consent, "encode_in_pieces"),
        (inquiry, "argument_digest"),
    ):
        monkeypatch.setattr(module, name, watched.watching(getattr(module, name)))
    return watched


def harness_with(folder: Path, storage: str | None = None, **body: Any) -> GatewayHarness:
    config = make_config(folder, {"crm": {"command": "played"}})
    policies = {"agents": {"one": {"allow": ["crm.*"], "confirm": ["crm.*"], **body}}}
    return GatewayHarness(config, {"crm": [tool("pay")]}, policies, storage)


@pytest.mark.parametrize(("arguments", "on_loop"), [(LARGE, False), ({"n": 7}, True)])
async def test_the_question_to_a_host_is_made_beside_the_loop(
    arguments: Json, on_loop: bool, tmp_path: Path, threads: Threads
) -> None:
    """B6: only what is small is looked through at once."""
    harness = harness_with(tmp_path)

    async def person(asked: Json) -> Json:
        return YES

    channel = AnsweringBackChannel(person)
    answer = await harness.call(harness.host("one", capabilities=FORMS), "crm.pay", arguments, channel)
    assert "isError" not in answer["result"]
    assert len(channel.asked) == 1
    assert len(channel.asked[0]["message"]) < 20_000
    assert threads.main == [on_loop] * 2


async def test_a_host_that_comes_back_with_the_answer(tmp_path: Path, threads: Threads) -> None:
    """B6: the arguments are digested again, and are the same."""
    harness = harness_with(tmp_path)
    host = harness.host("one", MODERN)
    host.capabilities = FORMS
    asked = (await harness.call(host, "crm.pay", LARGE))["result"]
    more = {"inputResponses": {"confirm": YES}, "requestState": asked["requestState"]}
    answer = await harness.call(host, "crm.pay", LARGE, **more)
    assert answer["result"]["content"][0]["text"] == "did pay"
    other = await harness.call(host, "crm.pay", {"rows": LARGE["rows"][:-1]}, **more)
    assert other["result"]["resultType"] == "input_required"
    assert threads.main
    assert not any(threads.main)


async def test_a_queued_question_is_made_beside_the_loop(tmp_path: Path, threads: Threads) -> None:
    """B6: and what is too large for the queue is not redacted at all."""
    harness = harness_with(tmp_path, f"sqlite:///{tmp_path}/a.db", confirm_by="queue", confirm_wait=0)
    async with harness, harness.app.database:
        answer = await harness.call(harness.host("one"), "crm.pay", LARGE)
        assert error_data(answer)["code"] == "approval_pending"
        huge = {"rows": LARGE["rows"] * 20}
        refused = await harness.call(harness.host("one"), "crm.pay", huge)
        assert error_data(refused)["code"] == "not_confirmed"
    assert threads.main
    assert not any(threads.main)


def test_of_a_long_value_only_the_start_is_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """B6: the characters of the rest are counted, not read."""
    read: list[int] = []

    def reading(text: str) -> str:
        read.append(len(text))
        return escaped(text)

    monkeypatch.setattr(shown_arguments, "escaped", reading)
    words = ["\u200b" * 100_000] * 10
    (line,) = shown_arguments.shown_arguments({"words": words}, None)
    assert max(read) <= shown_arguments.VALUE_SHOWN
    assert f"({len(json.dumps(words, ensure_ascii=False, separators=(',', ':'))) - 200} more characters)" in line
    assert "\\u200b" in line


@pytest.mark.parametrize("size", [1, 2_000])
def test_a_digest_does_not_depend_on_how_it_is_made(size: int) -> None:
    """B6: small values are written in one go, large ones piece by piece."""
    value = {"z": [1.0, 1.5, "é\ud800", None, True, {"b": -0.0, "a": 10**30}] * size, "": {}}
    plain = digest._canonical(value)
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    assert digest.canonical_json(value) == text.encode("utf-8", "surrogatepass")
