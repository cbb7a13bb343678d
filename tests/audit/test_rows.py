"""What a row says of a call, and what it never says."""

import asyncio
import json
import tempfile
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.audit import rows as rows_module
from aggregator.audit import sizes as measure
from aggregator.audit.capture import CUT, Capture
from aggregator.audit.log import AuditLog
from aggregator.audit.rows import RowMaker, row
from aggregator.audit.single_event import note
from aggregator.domain.bounds.small import is_small
from aggregator.domain.call_record import (
    Attempt,
    AuditEvent,
    CallRecord,
    RecordedCaller,
    RecordedOutcome,
    Stage,
    Status,
    TraceContext,
)
from aggregator.redaction.redactor import Redactor
from aggregator.storage.audit.chain import ChainBatch, entry
from aggregator.storage.audit.read import ALL, open_reader
from aggregator.storage.database import open_database
from aggregator.storage.digest import argument_digest
from aggregator.storage.opening import Database
from aggregator.wire import pieces
from aggregator.wire.codec import Raw, encode
from tests.audit.logs import AT, NOTHING, all_written, make_call, verdict_on
from tests.call_records import record_of
from tests.laws import examples

Running = Callable[..., AbstractAsyncContextManager[AuditLog]]
FULL = Capture("full", Redactor(["hunter2-hunter2"]).value, 1000)


async def _kept(url: str) -> list[dict[str, Any]]:
    async with open_reader(url) as reader:
        return [dict(row.values) for row in await reader.after(0, ALL)]


@pytest.mark.parametrize("status", get_args(Status))
async def test_every_way_out_is_one_row_with_all_that_is_known(logging_into: Running, url: str, status: Status) -> None:
    """D9: Whatever the status, each field of the record is in its column."""
    arguments, result = {"b": 1, "a": "ä"}, {"content": [], "isError": True}
    caller = RecordedCaller("shop", "sse", "2025-06-18", "acme", "k7", "ada", "s-1", "c-1", "call_tool")
    call = record_of(
        trace=TraceContext("a" * 32, "b" * 16, "c" * 16),
        started=AT,
        **caller._asdict(),
        asked_name="crm__list_orders",
        server="crm",
        answered_by="crm_b",
        tool="crm.list_orders",
        own_name="list_orders",
        sent_name="listOrders",
        schema_version="f" * 32,
        upstream_version="2026-07-28",
        duration=1.5,
        queued=0.25,
        steps=[Stage("check", 0.0, 0.125), Stage("upstream", 0.125, 0.5), Stage("upstream", 0.75, 0.25)],
        status=status,
        error_code="upstream_timeout",
        error_message="It did not answer.",
        rule="crm.*",
        rule_source="policies/shop.yaml:22",
        retries=2,
        approval_id="apr_7",
        attempts=(Attempt(1, "crm", "crm is not connected."), Attempt(2, "crm_b", None)),
        arguments=arguments,
        result=result,
    )
    async with logging_into() as log:
        log.record(call)
    (values,) = await _kept(url)
    assert values == {
        "trace_id": "a" * 32,
        "span_id": "b" * 16,
        "parent_id": "c" * 16,
        "user_id": "ada",
        "session_id": "s-1",
        "conversation_id": "c-1",
        "agent_id": "shop",
        "key_id": "k7",
        "tenant": "acme",
        "server_id": "crm",
        "answered_by": "crm_b",
        "tool_name": "crm.list_orders",
        "asked_name": "crm__list_orders",
        "own_name": "list_orders",
        "sent_name": "listOrders",
        "schema_version": "f" * 32,
        "frontend": "sse",
        "via": "call_tool",
        "host_version": "2025-06-18",
        "upstream_version": "2026-07-28",
        "started": AT,
        "ended": AT + 1.5,
        "duration": 1.5,
        "queued": 0.25,
        "upstream_seconds": 0.75,
        "status": status,
        "error_code": "upstream_timeout",
        "error_message": "It did not answer.",
        "rule": "crm.*",
        "rule_source": "policies/shop.yaml:22",
        "retries": 2,
        "arguments_bytes": len('{"a":"ä","b":1}'.encode()),
        "arguments_digest": argument_digest(arguments),
        "result_bytes": len(encode(result)),
        "result_digest": sha256(encode(result)).hexdigest(),
        "approval_id": "apr_7",
        "steps": '[["check",0,125000],["upstream",125000,500000,"crm","crm is not connected."],'
        '["upstream",750000,250000,"crm_b"]]',
    }


@pytest.mark.parametrize(
    ("told", "changes"),
    [
        (False, {}),
        (False, {"attempts": (Attempt(1, "crm", "It is gone."),), "status": "unavailable"}),
        (False, {"steps": [Stage("upstream", 0.0001, 0.999)], "duration": 0.9999}),
        (True, {"attempts": (Attempt(1, "crm", "It is gone."), Attempt(2, "erp", None))}),
        (True, {"approved_by": "cli:ada"}),
        (True, {"duration": 0.0131}),
        (True, {"steps": [Stage("upstream", 0.0001, 1.0005)], "duration": 1.001}),
    ],
)
def test_steps_are_told_where_the_times_do_not_say_enough(told: bool, changes: dict[str, Any]) -> None:
    """D9: A plain call has no steps in its row, so that it costs nothing more."""
    assert ("steps" in row(make_call(**changes), NOTHING).values) is told


def test_a_failure_of_an_attempt_holds_no_secret() -> None:
    """Invariant 5."""
    failures = tuple(Attempt(step, "crm", "It said hunter2-hunter2.") for step in (0, 1))
    hiding = Capture("none", lambda value: value.replace("hunter2-hunter2", "[redacted]"), 1000)
    steps = row(make_call(attempts=failures), hiding).values["steps"]
    assert "hunter2" not in steps
    assert steps.count("[redacted]") == 2


async def test_a_call_that_never_got_far(logging_into: Running, url: str) -> None:
    """D9: A name that nobody knows leaves a row, too, without what was never known."""
    caller, outcome = RecordedCaller("shop", "stdio"), RecordedOutcome("invalid")
    call = CallRecord(TraceContext("a" * 32, "b" * 16), AT, caller, "nonsense", outcome=outcome)
    async with logging_into() as log:
        log.record(call)
    (values,) = await _kept(url)
    assert values["asked_name"] == "nonsense"
    assert not {"tool_name", "server_id", "arguments_digest", "result_bytes"} & set(values)


async def test_other_events_stand_between_the_calls(logging_into: Running, url: str) -> None:
    """E13: In the order in which things happened."""
    event = AuditEvent(
        "key_changed", AT, "k7 was revoked.", "shop", details={"key": "k7", "password": "hunter2-hunter2"}
    )
    async with logging_into(capture=FULL) as log:
        log.record(make_call(1))
        log.event(event)
        log.record(make_call(2))
    async with open_reader(url) as reader:
        found = await reader.after(0, ALL)
    assert [(one.seq, one.kind) for one in found] == [(1, "call"), (2, "key_changed"), (3, "call")]
    assert found[1].values == {
        "at": AT,
        "summary": "k7 was revoked.",
        "agent_id": "shop",
        "details": '{"key":"k7","password":"[redacted]"}',
    }


async def test_a_command_writes_an_event_at_once(database: Database, url: str) -> None:
    """E13: Where no gateway runs, too."""
    await note(database.audit, AuditEvent("key_changed", AT, "k7 was revoked.", "shop", details={"password": "x"}))
    (values,) = await _kept(url)
    assert (values["summary"], values["details"]) == ("k7 was revoked.", '{"password":"[redacted]"}')


@pytest.mark.parametrize(
    ("mode", "kept"), [("none", []), ("arguments", ["arguments"]), ("full", ["arguments", "result"])]
)
async def test_what_is_captured(logging_into: Running, url: str, path: Path, mode: Any, kept: list[str]) -> None:
    """D9, B6: Arguments and results are in the file only as the configuration says, and never with a secret."""
    call = make_call(
        arguments={"note": "marmalade", "token": "hunter2-hunter2"},
        result={"content": [{"type": "text", "text": "strawberry for hunter2-hunter2"}]},
        error_message="hunter2-hunter2 is wrong",
        asked_name="hunter2-hunter2",
        conversation_id="hunter2-hunter2",
    )
    async with logging_into(capture=Capture(mode, FULL.redact, 1000)) as log:
        log.record(call)
        await all_written(log)
        on_disk = b"".join(file.read_bytes() for file in path.parent.iterdir())
    (values,) = await _kept(url)
    assert [name for name in ("arguments", "result") if name in values] == kept
    assert (b"marmalade" in on_disk, b"strawberry" in on_disk) == ("arguments" in kept, "result" in kept)
    assert b"hunter2" not in on_disk
    assert values["error_message"] == "[redacted] is wrong"


def test_what_is_too_long_is_cut() -> None:
    whole = row(make_call(result={"text": "x" * 980}), FULL).values["result"]
    cut = row(make_call(result={"text": "x" * 1000}), FULL).values["result"]
    assert json.loads(whole) == {"text": "x" * 980}
    assert cut == f'{{"text":"{"x" * 991}{CUT}'
    assert row(make_call(result=Raw(b'{"a":1}')), FULL).values["result"] == '{"a":1}'
    assert row(make_call(result={"deep": Raw(b'"' + b"x" * 10**6 + b'"')}), FULL).values["result"].endswith(CUT)


def test_what_is_left_out_in_the_middle_is_told_at_the_end() -> None:
    """Whatever fits after it."""
    too_deep: Any = "x"
    for _ in range(500):
        too_deep = [too_deep]
    for left_out in (too_deep, Raw(b'"' + b"x" * 10**6 + b'"')):
        for result in ({"a": left_out, "b": "y" * 400}, [left_out, "y" * 400]):
            assert row(make_call(result=result), FULL).values["result"].endswith(CUT)


SECRET = "zq7-VERY-secret-" + "9" * 400


@settings(deadline=None, max_examples=examples(60))
@given(st.integers(0, 22), st.integers(-420, 60))
def test_a_cut_shows_no_part_of_a_secret(hidden: int, near: int) -> None:
    """D9: Wherever a value is cut, however much shorter it got by redaction before."""
    early = (SECRET + "-") * hidden
    # What is looked at of a result ends near here, in the middle of a secret.
    text = early.ljust(9192 + near, "-") + SECRET + "-" * 5000
    message = early.ljust(12192 + near, "-") + SECRET + "-" * 5000
    capture = Capture("full", Redactor([SECRET], patterns=False).value, 1000)
    call = make_call(result={"text": text}, arguments=[text, [text]], error_message=message)
    kept = row(call, capture).values
    assert SECRET[:6] not in kept["result"] + kept["arguments"] + kept["error_message"]


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)) | st.just("x" * 300)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
anything = values | st.just(Raw(b'{"a": 1}')) | st.just(object()) | st.just({"x": {1, 2}})
names = st.text(st.characters(codec=None), max_size=300)


@settings(deadline=None, max_examples=15)
@given(st.lists(st.tuples(names, names, anything, anything), min_size=1, max_size=8))
def test_no_call_is_too_strange_for_a_row(empty_database: bytes, strange: list[tuple[str, str, Any, Any]]) -> None:
    """D9: Whatever a host or a server sends, there is one row, which can be read and proved."""
    calls = [
        make_call(n, asked_name=asked, session_id=asked, error_message=said, arguments=arguments, result=result)
        for n, (asked, said, arguments, result) in enumerate(strange)
    ]

    async def check(path: Path) -> None:
        async with open_database(f"sqlite+aiosqlite:///{path}") as database:
            await database.audit.append(ChainBatch([row(call, FULL) for call in calls]))
        verdict = await verdict_on(path)
        assert (verdict.rows, verdict.faults) == (len(calls), ())

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        path.write_bytes(empty_database)
        asyncio.run(check(path))


@settings(deadline=None)
@given(st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=40))
def test_pieces_measure_as_the_whole(value: Any) -> None:
    """In whatever pieces a value is encoded, its size and its digest are those of its encoding."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "is_small", partial(is_small, values=4, characters=8))
        patch.setattr(pieces, "CHARACTERS", 8)
        patch.setattr(pieces, "_ITEMS", 3)
        in_pieces = measure.measure(value)
    text = encode(value)
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return  # written in another way where a half character stands, and piece by piece where it does
    assert in_pieces == (len(text), sha256(text).hexdigest())


def test_a_redaction_that_fails_keeps_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(value: Any) -> Any:
        raise RuntimeError("a bug")

    values = row(make_call(error_message="secret"), Capture("full", fail, 1000)).values
    assert (values.get("arguments"), values.get("result"), values["error_message"]) == (None, None, CUT)
    assert "could not be redacted" in caplog.text


def test_names_of_hosts_are_bounded() -> None:
    kept = row(make_call(session_id="s" * 10**6, conversation_id="a\0b\ud800"), NOTHING).values
    assert kept["session_id"] == "s" * 199 + CUT
    assert kept["conversation_id"] == "a\\0b\\ud800"


MIXED = [
    make_call(1),
    make_call(2, arguments=None, result=None),
    make_call(3, trace=TraceContext("c" * 32, "d" * 16, "e" * 16), duration=0.0, queued=0.5, steps=[]),
    make_call(4, status="error", error_code="tool_error", error_message="It broke."),
    make_call(
        5, arguments={"x": object()}, session_id="s" * 300, status="denied", rule="crm.*", rule_source="a.yaml:1"
    ),
    make_call(6, started=1.0000005, duration=1e-7, agent_id="desk", retries=1),
]


@pytest.mark.parametrize("capture", [NOTHING, FULL])
def test_a_maker_that_remembers_makes_the_same_rows(capture: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """D9: What calls have in common is taken from none of them, and each row is digested as its columns say."""
    monkeypatch.setattr(rows_module, "_COMMON", 3)
    maker = RowMaker(capture)
    for call in MIXED * 3:
        made = maker.row(call)
        assert made == row(call, capture)
        assert made == entry(made.kind, made.values)
    assert len(maker._common) <= 3


async def test_rows_of_many_kinds_are_written_together(database: Database, url: str, path: Path) -> None:
    """D9: In one transaction, in their order, whatever columns they have."""
    event = AuditEvent("key_changed", AT, "k7 was revoked.", "shop")
    what: list[CallRecord | AuditEvent] = [*MIXED, event, make_call(7)]
    made = [row(one, FULL) for one in what * 50]
    await database.audit.append(ChainBatch(made))
    async with open_reader(url) as reader:
        found = await reader.after(0, ALL)
    assert [(one.kind, one.values) for one in found] == [(one.kind, one.values) for one in made]
    assert (await verdict_on(path)).faults == ()
