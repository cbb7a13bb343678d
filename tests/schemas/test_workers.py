"""Checks in processes of their own: everybody else goes on, and one that is killed costs its own check alone."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from select import select
from subprocess import PIPE
from typing import Any

import anyio
import pytest

from aggregator.config.settings import ChecksConfig
from aggregator.domain.records import ToolRecord
from aggregator.schemas.check import SchemaCheck
from aggregator.schemas.checks import SchemaChecks, UncompiledSchema
from aggregator.schemas.fault import UnusableSchema
from aggregator.schemas.workers import workers as module
from aggregator.schemas.workers.workers import CheckInterrupted, CheckWorkers
from aggregator.wire.codec import encode
from tests.schemas.attacks import ATTACKS

ROOT = Path(__file__).resolve().parents[2]
# More than any machine takes to make a check that ends.
AMPLE = ChecksConfig(timeout=60.0)
# Compiling it takes longer than this, and a message to another process does too.
HEAVY = {"properties": {f"p{n}": {"pattern": f".{{1,1000}}{n}"} for n in range(300)}}
NOTHING = ChecksConfig(timeout=0.001)


@pytest.fixture
async def workers() -> AsyncIterator[CheckWorkers]:
    made = CheckWorkers(AMPLE)
    yield made
    await made.close()


def check_of(schema: Any) -> SchemaCheck | UncompiledSchema:
    return SchemaChecks().get(ToolRecord("s", "s", "t", {"name": "t", "inputSchema": schema}, {}, 1.0))


def looks_back(alternatives: int) -> dict[str, Any]:
    """Proves: a schema as of a server that stalled everybody for 27 seconds with 4,000 properties."""
    options = [{"properties": {f"x{n}": {"type": "string"}}} for n in range(alternatives)]
    return {"anyOf": options, "unevaluatedProperties": False}


def wide(properties: int) -> dict[str, int]:
    return {f"p{n}": n for n in range(properties)}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (looks_back(2_000), wide(200)),
        (looks_back(50), wide(200)),
        ({"contains": {"type": "string"}, "unevaluatedItems": {"type": "integer"}}, list(range(400))),
        ({"items": {"enum": [{"a": n} for n in range(400)]}}, [{"a": -1}] * 400),
        ({"items": {"multipleOf": 1e-300}}, [1e18] * 100),
        ({"properties": wide(450) | {"p": {}}, "additionalProperties": False} | {"properties": {}}, wide(600)),
        ({}, list(range(200_000))),
        ({"enum": ["x" * 90 + str(n) for n in range(900)]}, "x" * 90),
        (HEAVY, {}),
        ({"items": {"pattern": "([^c]{1,50}){60}c"}}, ["a" * 300] * 300),
    ],
)
def test_what_may_take_long_is_not_done_at_once(schema: Any, value: Any) -> None:
    assert check_of(schema).at_once(value) is None


@pytest.mark.parametrize("name", [name for name in ATTACKS if name not in ("deep in place", "look-ahead")])
def test_at_once_and_apart_they_say_the_same(name: str) -> None:
    schema, value = ATTACKS[name]()
    try:
        check = check_of(schema)
    except UnusableSchema:
        return
    said = check.at_once(value)
    if said is not None:
        assert isinstance(check, SchemaCheck)
        assert said == check.faults(value)


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}, {"city": "a"}, True),
        ({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}, {"town": "a"}, False),
        ({"items": {"type": "object", "required": ["id"]}}, [{"id": n, "tags": ["a"]} for n in range(200)], True),
        ({"properties": {"n": {"multipleOf": 0.01, "pattern": "^[a-z]+$"}}}, {"n": 1.25}, True),
        ({"unevaluatedProperties": False, "allOf": [{"properties": {"a": True}}]}, {"a": 1}, True),
        ({"enum": ["red", "green"]}, "rde", False),
    ],
)
def test_what_is_usual_is_done_at_once(schema: Any, value: Any, fits: bool) -> None:
    said = check_of(schema).at_once(value)
    assert said is not None
    assert (not said) == fits


async def test_a_worker_says_what_the_check_does_and_is_kept(workers: CheckWorkers) -> None:
    check = check_of({"items": {"type": "integer"}, "maxItems": 3})
    assert isinstance(check, SchemaCheck)
    for value in ([1, 2], ["a", 2**70, None], None, [1, 2, 3, 4]):
        assert await workers.faults(check, value, "s", "a") == check.faults(value)
    assert workers.started == 1


async def test_an_unread_schema_is_read_in_a_worker(workers: CheckWorkers) -> None:
    check = check_of(looks_back(700))
    assert isinstance(check, UncompiledSchema)
    assert await workers.faults(check, {}, "s", "a") == ()
    wrong = await workers.faults(check, {"y": 1}, "s", "a")
    assert [fault.keyword for fault in wrong] == ["unevaluatedProperties"]
    deep, _ = ATTACKS["deep schema"]()
    with pytest.raises(UnusableSchema, match="nested too deeply"):
        await workers.faults(UncompiledSchema((deep,)), 1, "s", "a")
    large, _ = ATTACKS["many subschemas"]()
    with pytest.raises(UnusableSchema, match="more than 5,000 subschemas"):
        await workers.faults(UncompiledSchema((large,)), 1, "s", "a")
    assert workers.started == 2, "one was waiting for a schema that could not be sent"
    listed = ATTACKS["deep value"]()[1]
    assert [fault.keyword for fault in await workers.faults(check, listed, "s", "a")] == ["size"]


async def test_what_nobody_can_foresee_is_tried_in_a_worker(workers: CheckWorkers) -> None:
    """It would be refused where it cannot be killed; here it is known, or the time is over."""
    schema, value = ATTACKS["dynamic choice"]()
    check = check_of(schema)
    assert isinstance(check, SchemaCheck)
    assert [fault.keyword for fault in check.faults(value)] == ["time"]
    short = [[1]]
    assert check.faults(short, killable=True) == await workers.faults(check, short, "s", "a")
    wide_one = check_of({**looks_back(700), "unevaluatedProperties": {"type": "integer"}})
    assert await workers.faults(wide_one, wide(4_000), "s", "a") == ()


async def test_a_check_whose_time_is_over_is_cut_and_the_next_has_another_worker() -> None:
    workers = CheckWorkers(NOTHING)
    check = check_of(HEAVY)
    with anyio.fail_after(60):
        with pytest.raises(CheckInterrupted) as cut:
            await workers.faults(check, {}, "s", "a")
        assert cut.value.why == "time"
        workers.reconfigure(AMPLE)
        assert await workers.faults(check_of({}), {}, "s", "a") == ()
        assert workers.started == 2
        await workers.close()


async def test_others_go_on_while_one_is_checked(workers: CheckWorkers) -> None:
    """Counted in turns of the event loop, since nobody knows how fast a machine is."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    going = asyncio.create_task(others())
    await workers.faults(check_of({}), None, "s", "a")
    before = turns
    assert await workers.faults(check_of(HEAVY), {"p1": "x" * 2_000}, "s", "a") is not None
    assert turns - before > 100
    going.cancel()


@pytest.fixture
def one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORKERS", 1)


@pytest.mark.usefixtures("one_worker")
async def test_who_leaves_frees_the_place(workers: CheckWorkers) -> None:
    slow = asyncio.create_task(workers.faults(check_of(HEAVY), {}, "s", "a"))
    waiting = asyncio.create_task(workers.faults(check_of({}), 1, "t", "b"))
    gone = asyncio.create_task(workers.faults(check_of({}), 1, "t", "c"))
    await asyncio.sleep(0)
    gone.cancel()
    slow.cancel()
    assert await waiting == ()
    with pytest.raises(asyncio.CancelledError):
        await slow
    assert repr(workers).endswith("<Turns: 0 of 1 taken, 0 waiting>>")


async def test_a_worker_that_died_meanwhile_is_replaced(workers: CheckWorkers) -> None:
    check = check_of({"type": "string"})
    await workers.faults(check, "", "s", "a")
    [worker] = workers._idle
    os.kill(worker._process.pid, signal.SIGKILL)
    await worker._process.wait()
    assert await workers.faults(check, "", "s", "a") == ()
    assert workers.started == 2


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process")
async def test_a_worker_takes_bounded_memory_and_leaves_the_processor_to_others(workers: CheckWorkers) -> None:
    await workers.faults(check_of({"type": "string"}), "", "s", "a")
    pid = workers._idle[0]._process.pid
    assert resource.prlimit(pid, resource.RLIMIT_AS)[0] == 4 * 2**30
    assert os.getpriority(os.PRIO_PROCESS, pid) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5)


async def test_none_is_left_after_the_end(workers: CheckWorkers) -> None:
    check = check_of({})
    await workers.faults(check, "", "s", "a")
    [worker] = workers._idle
    await workers.close()
    assert worker._process.returncode is not None
    with pytest.raises(CheckInterrupted, match="shutting down"):
        await workers.faults(check, "", "s", "a")


def test_a_worker_ends_with_its_program() -> None:
    reading, writing = os.pipe()
    code = (
        "import subprocess, sys\n"
        f"w = subprocess.Popen([sys.executable, '-m', 'aggregator.schemas.workers.worker'], pass_fds=[{writing}],"
        " stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "w.stdout.read(8)\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    program = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=PIPE, stdout=PIPE, pass_fds=[writing])
    os.close(writing)
    assert program.stdin is not None
    assert program.stdout is not None
    with program.stdin, program.stdout:
        assert program.stdout.readline() == b"ready\n"
        assert not select([reading], [], [], 0)[0], "the worker runs"
        program.kill()
        program.wait(30)
    # What only the worker still held open is closed.
    assert select([reading], [], [], 60)[0]
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_a_busy_worker_is_ended_by_the_system_if_nobody_does() -> None:
    worker = subprocess.Popen(
        [sys.executable, "-m", "aggregator.schemas.workers.worker"], cwd=ROOT, stdin=PIPE, stdout=PIPE
    )
    assert worker.stdin is not None
    with worker.stdin as orders:
        # Its time was over before it began, and what it should do never comes.
        for frame in (encode([1, -0.99]), encode(None)):
            orders.write(len(frame).to_bytes(8) + frame)
        orders.flush()
        assert worker.wait(60) == -signal.SIGALRM
    assert worker.stdout is not None
    worker.stdout.close()
