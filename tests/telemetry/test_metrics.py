"""What is counted, and how Prometheus reads it."""

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from aggregator.domain.call_record import CallRecord, Stage
from aggregator.telemetry import metrics as counting
from aggregator.telemetry.metrics import Metrics
from aggregator.telemetry.snapshot import Snapshot
from tests.laws import examples
from tests.telemetry.call_records import NAMES, SNAPSHOT, STATUSES, call, calls, unknown_tool

Labels = frozenset[tuple[str, str]]


def read(metrics: Metrics) -> dict[str, dict[Labels, float]]:
    """The samples of the page by name, as Prometheus' own parser reads it."""
    found: dict[str, dict[Labels, float]] = {}
    text = b"".join(metrics.page()).decode()
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        assert family.type in ("counter", "gauge", "histogram"), family.name
        for sample in family.samples:
            of_name = found.setdefault(sample.name, {})
            labels = frozenset(sample.labels.items())
            assert labels not in of_name, f"{sample.name} twice with {sample.labels}"
            of_name[labels] = sample.value
    return found


def labels(**given: str) -> Labels:
    return frozenset(given.items())


def test_calls_are_counted_by_server_tool_agent_and_status() -> None:
    """Proves: D9. One count each, and what went wrong beside what went well."""
    metrics = Metrics(Snapshot)
    for record in (call(), call(), call("timeout"), call(agent_id="desk"), unknown_tool("x"), unknown_tool("y")):
        metrics(record)
    weather = {"server": "weather", "tool": "weather.get_forecast"}
    assert read(metrics)["aggregator_calls_total"] == {
        labels(**weather, agent="shop", status="ok"): 2,
        labels(**weather, agent="shop", status="timeout"): 1,
        labels(**weather, agent="desk", status="ok"): 1,
        labels(server="unknown", tool="unknown", agent="shop", status="invalid"): 2,
    }


def test_the_time_of_a_call_is_told_apart() -> None:
    """Proves: D9. The whole, the upstream's part and our own; a person's is in the whole only."""
    metrics = Metrics(Snapshot)
    steps = [Stage("confirm", 0.0, 9.0), Stage("upstream", 9.0, 0.25), Stage("upstream", 9.5, 0.25)]
    metrics(call(duration=10.0, steps=steps, retries=1, queued=0.125))
    metrics(call("denied", duration=0.0004))
    found = read(metrics)
    weather = labels(server="weather")
    tool = weather | labels(tool="weather.get_forecast")
    assert found["aggregator_call_duration_seconds_sum"] == {tool: 10.0004}
    assert found["aggregator_call_duration_seconds_count"] == {tool: 2}
    assert found["aggregator_call_upstream_seconds_sum"] == {weather: 0.5}
    assert found["aggregator_call_upstream_seconds_count"] == {weather: 1}
    assert found["aggregator_call_own_seconds_sum"][weather] == pytest.approx(0.5004)
    assert found["aggregator_call_retries_total"] == {weather: 1}
    assert found["aggregator_call_queued_seconds_total"] == {weather: 0.125}
    buckets = found["aggregator_call_duration_seconds_bucket"]
    assert [buckets[tool | labels(le=bound)] for bound in ("0.001", "5.0", "10.0", "300.0", "+Inf")] == [1, 1, 2, 2, 2]


def test_the_state_of_things_is_read_when_asked() -> None:
    """Proves: D9. Upstreams, sessions, queues, catalog and what lists cost; names are escaped."""
    now = [SNAPSHOT]
    metrics = Metrics(lambda: now[0])
    found = read(metrics)
    weather, odd = labels(server="weather"), labels(server='odd"\\\nname')
    assert found["aggregator_upstream_up"] == {weather: 1, odd: 0}
    assert found["aggregator_upstream_state"] == {
        weather | labels(state="ready"): 1,
        odd | labels(state="unavailable"): 1,
    }
    assert found["aggregator_upstream_reconnects_total"] == {weather: 3, odd: 0}
    assert found["aggregator_upstream_in_flight"] == {weather: 2, odd: 0}
    assert found["aggregator_catalog_tools"] == {weather: 12, odd: 0}
    assert found["aggregator_sessions"] == {
        labels(frontend="http"): 4,
        labels(frontend="sse"): 1,
        labels(frontend="stdio"): 0,
    }
    assert found["aggregator_queue_depth"] == {labels(queue="audit"): 17, labels(queue="approvals"): 2}
    assert found["aggregator_queue_lost_total"] == {labels(queue="audit"): 0}
    assert found["aggregator_list_tokens"] == {
        labels(agent="shop", list="whole"): 9_000,
        labels(agent="shop", list="shown"): 350,
    }
    assert found["aggregator_spans_total"] == {
        labels(outcome="exported"): 100,
        labels(outcome="failed"): 5,
        labels(outcome="dropped"): 2,
    }
    assert found["aggregator_spans_waiting"] == {labels(): 7}
    now[0] = Snapshot()
    assert "aggregator_upstream_up" not in read(metrics)
    assert "aggregator_spans_total" not in read(metrics)


def test_the_page_keeps_the_conventions() -> None:
    """Proves: D9. Those that `promtool check metrics` holds a page to (promlint 2.42); it finds nothing there."""
    metrics = Metrics(lambda: SNAPSHOT)
    metrics(call(answered_by="spare"))
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
    units = {"seconds", "bytes", "ratio"}
    others = {"milliseconds", "microseconds", "nanoseconds", "minutes", "hours", "days", "kibibytes", "mebibytes"}
    for family in text_string_to_metric_families(b"".join(metrics.page()).decode()):
        words = family.name.split("_")
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", family.name), "snake case"
        assert not {"counter", "gauge", "histogram", "summary", *others, *"smbgkn"} & set(words), family.name
        assert not units & set(words[:-1]), f"{family.name}: the unit ends the name"
        if family.type == "gauge":
            assert words[-1] not in ("total", "bucket", "sum", "count"), family.name
        for sample in family.samples:
            assert sample.name.removeprefix(family.name) in suffixes[family.type], sample.name
            assert ("le" in sample.labels) == sample.name.endswith("_bucket"), sample
            assert "quantile" not in sample.labels, f"{sample.name}: that label is for summaries"
            assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", label) for label in sample.labels), sample


def test_the_number_of_series_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D9. Beyond the bound tools and agents are `other`; no call is lost, and names nobody has are none."""
    monkeypatch.setattr(counting, "CALLS_AT_MOST", 10)
    monkeypatch.setattr(counting, "TOOLS_AT_MOST", 5)
    monkeypatch.setattr(counting, "SERVERS_AT_MOST", 3)
    metrics = Metrics(Snapshot)
    records = [call(tool=f"s{n % 2}.t{n}", server=f"s{n % 2}", agent_id=f"a{n % 7}") for n in range(100)]
    records += [unknown_tool(f"guess{n}") for n in range(100)]
    for record in records:
        metrics(record)
    found = read(metrics)
    counted = found["aggregator_calls_total"]
    assert sum(counted.values()) == 200
    assert len(counted) <= 10 + 3
    assert counted[labels(server="s0", tool="other", agent="other", status="ok")] > 30
    assert sum(found["aggregator_call_duration_seconds_count"].values()) == 200
    assert len(found["aggregator_call_duration_seconds_count"]) <= 5 + 3
    assert "guess" not in repr(found)
    assert len(metrics._places) <= 10


@settings(deadline=None, max_examples=examples(30))
@given(st.lists(calls(), max_size=12), st.dictionaries(NAMES, st.integers(0, 9), max_size=5))
def test_any_calls_are_a_page_that_adds_up(records: list[CallRecord], queues: dict[str, int]) -> None:
    """Proves: D9. Whatever names there are, every call is in the counter once and in the histograms once."""
    metrics = Metrics(lambda: Snapshot(queues=queues))
    for record in records:
        metrics(record)
    found = read(metrics)
    counted = found.get("aggregator_calls_total", {})
    assert sum(counted.values()) == len(records)
    by_status = Counter(record.outcome.status for record in records)
    for status in STATUSES:
        assert sum(n for of, n in counted.items() if ("status", status) in of) == by_status[status]
    for name in ("aggregator_call_duration_seconds", "aggregator_call_own_seconds"):
        counts, buckets = found.get(f"{name}_count", {}), found.get(f"{name}_bucket", {})
        assert sum(counts.values()) == len(records)
        for key, count in counts.items():
            steps = [(float(dict(of)["le"]), n) for of, n in buckets.items() if key < of]
            assert [n for _, n in sorted(steps)] == sorted(n for _, n in steps)
            assert max(steps)[1] == count
    assert {dict(of)["queue"]: n for of, n in found.get("aggregator_queue_depth", {}).items()} == queues
