"""A handle opens a result: it stands in no record, no log line and no span."""

import json
import logging

import pytest

from aggregator.audit.rows import RowMaker
from aggregator.domain.call_record import CallRecord
from aggregator.frontends.console.calls.timeline import steps_of
from aggregator.redaction.redactor import Redactor
from tests.audit.logs import NOTHING
from tests.kept_results.conftest import OpenLarge, handle_of, text_block


async def test_records_have_a_digest_of_it_alone(open_large: OpenLarge, caplog: pytest.LogCaptureFixture) -> None:
    """Called by its name, through `call_tool`, with a wrong page, and read as a resource."""
    caplog.set_level(logging.DEBUG)
    async with open_large() as harness:
        host, closed = harness.host("one"), list[CallRecord]()
        handle = handle_of(await harness.result(host, "shop.orders"))
        harness.app.gateway.call_log.observers.sinks += (closed.append,)
        for arguments in ({}, {"offset": 10**9}, {"path": "no.where"}):
            await harness.result(host, "read_result", {"handle": handle, **arguments})
            inner = {"name": "read_result", "arguments": {"handle": handle, **arguments}}
            await harness.result(host, "call_tool", inner)
        await harness.ask(host, "resources/read", {"uri": f"aggregator://results/{handle}"})
    assert len(closed) == 7
    for record in closed[:-1]:
        assert record.arguments["handle"].startswith("sha256:"), record
        assert handle not in f"{record.arguments} {record.outcome.error_message}"
    assert handle not in f"{closed[-1].called.own_name} {closed[-1].outcome.error_message}"
    assert handle not in caplog.text


async def test_the_redaction_knows_it_by_its_form(open_large: OpenLarge) -> None:
    """So what is kept of whole results, or of a call that was refused before, has it no more."""
    async with open_large() as harness:
        result = await harness.result(harness.host("one"), "shop.orders")
    handle, redactor = handle_of(result), Redactor()
    assert handle not in json.dumps(redactor.value(result))
    assert handle not in redactor(f"could not read aggregator://results/{handle} now")


async def test_the_audit_says_how_much_was_shown(open_large: OpenLarge) -> None:
    """In the row of a call that was shown in part, and of no other."""
    async with open_large() as harness:
        host, closed = harness.host("one"), list[CallRecord]()
        harness.app.gateway.call_log.observers.sinks += (closed.append,)
        details = (await harness.result(host, "shop.orders"))["_meta"]["aggregator/shortened"]
        harness.answer_with(content=[text_block("small")])
        await harness.result(host, "shop.orders")
    large, small = closed
    assert large.outcome.shown == (details["shown"], details["tokens"])
    assert 0 < details["shown"] < 2_000 < details["tokens"]
    (output,) = [step for step in steps_of(RowMaker(NOTHING).row(large).values) or () if step.name == "output"]
    assert output.server == f"{details['shown']:,} of {details['tokens']:,} tokens shown"
    assert small.outcome.shown is None
