"""What is read of the callers' trace and written for the upstreams'."""

import re
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from aggregator.domain.call_record import TraceContext
from aggregator.domain.trace_context import begin, onward, parse_tracestate, step_span_id, upstream_span_id
from tests.laws import examples

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
STATE = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"


def is_new(found: TraceContext) -> bool:
    return found.parent_id is None and found.trace_id != TRACE and found.sampled and not found.tracestate


def test_a_caller_without_a_trace_begins_one() -> None:
    """Proves: D9. Ids are minted as the standard writes them, and never twice."""
    found = [begin() for _ in range(1_000)]
    assert all(
        re.fullmatch("[0-9a-f]{32}", one.trace_id) and re.fullmatch("[0-9a-f]{16}", one.span_id) for one in found
    )
    assert len({one.trace_id for one in found}) == len({one.span_id for one in found}) == 1_000
    assert all(map(is_new, found))


def test_a_trace_is_continued() -> None:
    """Proves: D9. The id of the trace is the caller's, the parent its span, and our own span a new one."""
    found = begin({"traceparent": PARENT, "tracestate": STATE})
    assert (found.trace_id, found.parent_id, found.sampled, found.tracestate) == (TRACE, SPAN, True, STATE)
    assert found.span_id not in (SPAN, begin({"traceparent": PARENT}).span_id)


def test_headers_count_where_the_message_says_nothing() -> None:
    """Proves: D9. `_meta` speaks of the message, a header of the request that brought it (SEP-414)."""
    other = f"00-{'a' * 32}-{'b' * 16}-00"
    headers = {"traceparent": [other], "tracestate": ["x=1", "y=2"]}
    assert begin({"traceparent": PARENT}, headers).trace_id == TRACE
    assert begin({"traceparent": PARENT}, headers).tracestate == ""
    found = begin({"progressToken": 1}, headers)
    assert (found.trace_id, found.parent_id, found.sampled, found.tracestate) == ("a" * 32, "b" * 16, False, "x=1,y=2")
    assert begin({"traceparent": "nonsense"}, headers).trace_id == "a" * 32


@pytest.mark.parametrize(
    "text",
    [
        "",
        PARENT.upper(),
        PARENT[:-1],
        PARENT + "0",
        PARENT + "-more",
        f" {PARENT}",
        f"{PARENT}\n",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-0g",
        f"01-{TRACE}-{SPAN}-01more",
        f"01-{TRACE}-{SPAN}-01-" + "x" * 10_000,
        f"00-{TRACE.replace('4', '４')}-{SPAN}-01",
        7,
        None,
        ["00"],
        {"trace": TRACE},
    ],
)
def test_a_malformed_parent_is_ignored(text: Any) -> None:
    """Proves: D9. A new trace begins, and nothing of the old one is kept."""
    assert is_new(begin({"traceparent": text, "tracestate": STATE}))


def test_params_of_any_form_begin_a_trace() -> None:
    assert all(map(is_new, (begin(None), begin("meta"), begin([PARENT]), begin({}), begin({"tracestate": STATE}))))
    assert is_new(begin(None, {"traceparent": [PARENT, PARENT]}))
    assert is_new(begin(None, {"traceparent": []}))


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    """W3C Trace Context, section 3.2.4: and only the flag we know is taken."""
    found = begin({"traceparent": f"cc-{TRACE}-{SPAN}-0b-what-comes-then"})
    assert (found.trace_id, found.parent_id, found.sampled) == (TRACE, SPAN, True)
    assert onward(found, recorded=True)["traceparent"].startswith(f"00-{TRACE}-")
    assert not begin({"traceparent": f"00-{TRACE}-{SPAN}-0a"}).sampled


@settings(deadline=None, max_examples=examples(60))
@given(st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{30,33}-0{0,15}[0-9a-f]{1,17}-[0-9a-f]{2}", fullmatch=True))
def test_the_sdk_reads_the_same(text: str) -> None:
    """The OpenTelemetry API is the oracle for what is a parent and what is none."""
    context = TraceContextTextMapPropagator().extract({"traceparent": text})
    theirs = trace.get_current_span(context).get_span_context()
    ours = begin({"traceparent": text})
    assert theirs.is_valid == (ours.parent_id is not None)
    if theirs.is_valid:
        assert (trace.format_trace_id(theirs.trace_id), trace.format_span_id(theirs.span_id)) == (
            ours.trace_id,
            ours.parent_id,
        )
        assert bool(theirs.trace_flags.sampled) == ours.sampled


def test_what_goes_on_names_the_span_of_that_attempt() -> None:
    """Proves: D9. The upstream hangs below the span of the very request it got, in the same trace."""
    found = begin({"traceparent": PARENT, "tracestate": STATE})
    for attempt in range(3):
        said = onward(found, attempt, recorded=True)
        assert said == {"traceparent": f"00-{TRACE}-{upstream_span_id(found, attempt)}-01", "tracestate": STATE}
        assert begin(said).parent_id == upstream_span_id(found, attempt)
    assert onward(begin(), recorded=True).keys() == {"traceparent"}


def test_who_records_nothing_leaves_no_hole() -> None:
    """Proves: D9. Without an exporter the upstream's parent is our caller's span, unchanged flags and all."""
    for flag in ("00", "01"):
        parent = f"00-{TRACE}-{SPAN}-{flag}"
        found = begin({"traceparent": parent, "tracestate": STATE})
        assert onward(found, recorded=False) == {"traceparent": parent, "tracestate": STATE}
    root = begin()
    assert onward(root, recorded=False) == {"traceparent": f"00-{root.trace_id}-{root.span_id}-01"}


def test_the_sampler_decides_with_the_callers_word() -> None:
    """Proves: D9. What it says is what the upstream is told."""
    asked: list[tuple[str, bool | None]] = []

    def never(trace_id: str, caller: bool | None) -> bool:
        asked.append((trace_id, caller))
        return False

    new, continued = begin(sample=never), begin({"traceparent": PARENT}, sample=never)
    assert asked == [(new.trace_id, None), (TRACE, True)]
    assert onward(new, recorded=True)["traceparent"].endswith("-00")
    assert onward(continued, recorded=True)["traceparent"].endswith("-00")


@settings(deadline=None, max_examples=examples(60))
@given(st.integers(1, 2**64 - 1))
def test_the_spans_of_a_call_have_ids_of_their_own(number: int) -> None:
    call = TraceContext(TRACE, f"{number:016x}")
    ids = [call.span_id, *(upstream_span_id(call, n) for n in range(10)), *(step_span_id(call, n) for n in range(20))]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch("[0-9a-f]{16}", one) and int(one, 16) for one in ids)


@pytest.mark.parametrize(
    ("lines", "read"),
    [
        (["a=1, b=2 ,,\tc=3"], "a=1,b=2,c=3"),
        (["a=1", "fw529a3039@dt=x"], "a=1,fw529a3039@dt=x"),
        (["a=1,a=2"], ""),
        (["A=1"], ""),
        (["a"], ""),
        (["a="], ""),
        (["a=b=c"], ""),
        (["a=\u00e9"], ""),
        ([",".join(f"k{n}=1" for n in range(33))], ""),
        (["x=" + "y" * 257], ""),
        ([7], ""),
        ([], ""),
    ],
)
def test_state_is_taken_whole_or_not_at_all(lines: list[Any], read: str) -> None:
    """W3C Trace Context, section 3.3: what others wrote is passed on as it is, if it is well formed."""
    assert parse_tracestate(lines) == read


def test_too_much_state_is_shortened_as_the_standard_says() -> None:
    """Section 3.3.1.5: long members go first, then those at the end."""
    members = ["a=1", "b=" + "x" * 200, *(f"k{n}=" + "y" * 90 for n in range(5)), "z=1"]
    assert parse_tracestate([",".join(members)]) == ",".join(m for m in members if not m.startswith("b="))
    kept = parse_tracestate([",".join([*members, "y=" + "y" * 100])])
    assert kept == ",".join(m for m in members if not m.startswith("b="))
    assert parse_tracestate([",".join(f"k{n}={'v' * 250}" for n in range(9)) + "," + "q=" + "z" * 8_000]) == ""


def test_a_fork_has_ids_of_its_own() -> None:
    """Proves: D9. A program that embeds us may fork; no two calls may have one trace."""
    code = (
        "import os\nfrom aggregator.domain.trace_context import begin\n"
        "child = os.fork()\nif child: os.waitpid(child, 0)\nprint(begin().trace_id, flush=True)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    one, other = done.stdout.split()
    assert one != other
