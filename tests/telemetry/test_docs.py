"""The page and the dashboard say what is there, and all of it."""

import json
import re
from pathlib import Path
from typing import Any, Final

import yaml
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from aggregator.domain.call_record import Stage
from aggregator.telemetry import otel_environment
from aggregator.telemetry import otel_environment as spans_settings
from aggregator.telemetry.hops import hop_to
from aggregator.telemetry.metrics import Metrics
from aggregator.telemetry.span_attributes import FAILURES, spans_of
from tests.telemetry.call_records import ITEMS, SNAPSHOT, STATUSES, call, item, unknown_tool

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
PAGE: Final = (DOCS / "observability.md").read_text(encoding="utf-8")
DASHBOARD: Final[dict[str, Any]] = json.loads((DOCS / "grafana-dashboard.json").read_text(encoding="utf-8"))
_NAME: Final = re.compile(r"\b(?:aggregator|mcp_client|mcp_server)_[a-z_]+\b")


def families() -> dict[str, Metric]:
    metrics = Metrics(lambda: SNAPSHOT, lambda server: hop_to("https://mcp.example.com/mcp", None))
    metrics(call(answered_by="spare"))
    metrics(call("error", error_code="-32000"))
    metrics(item("prompts/get"))
    metrics.sessions.host_over("http", "2025-11-25", 1.0, "unread")
    metrics.sessions.upstream_over("weather", "2025-11-25", 1.0, "given_up")
    found = text_string_to_metric_families(b"".join(metrics.page()).decode())
    return {f"{f.name}_total" if f.type == "counter" else f.name: f for f in found}


def label_names(family: Metric) -> set[str]:
    return {label for sample in family.samples for label in sample.labels} - {"le"}


def expressions() -> list[str]:
    targets = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    return targets + [
        variable["definition"] for variable in DASHBOARD["templating"]["list"] if "definition" in variable
    ]


def test_every_metric_is_on_the_page_with_its_type_and_labels() -> None:
    rows = re.findall(r"^\| `((?:aggregator|mcp)_\w+)` \| (\w+) \|(.*?)\| .+ \|$", PAGE, re.MULTILINE)
    written = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    assert written == {name: (family.type, label_names(family)) for name, family in families().items()}


def test_the_dashboard_asks_for_what_there_is() -> None:
    """Proves: D9. Every metric has its place on it, and no panel asks for one that does not exist."""
    there = families()
    samples = {sample.name for family in there.values() for sample in family.samples}
    asked = {name for expression in expressions() for name in _NAME.findall(expression)}
    assert asked <= samples
    assert {name for name, f in there.items() if not {s.name for s in f.samples} & asked} == set()
    for expression in expressions():
        used = {label for inside in re.findall(r"\{(.*?)\}", expression) for label in re.findall(r"(\w+)=~?\"", inside)}
        used |= {word for inside in re.findall(r"by \((.*?)\)", expression) for word in inside.split(", ")} - {"le"}
        of = [there.get(name) or there[name.rsplit("_", 1)[0]] for name in _NAME.findall(expression)]
        assert all(used <= label_names(family) for family in of), expression


def test_panels_have_ids_and_places_of_their_own() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels]
    assert len(set(places)) == len(panels)
    assert all(p["gridPos"]["x"] + p["gridPos"]["w"] <= 24 for p in panels)
    assert all(p.get("datasource", {"uid": "${datasource}"})["uid"] == "${datasource}" for p in panels)


def test_every_attribute_is_on_the_page() -> None:
    """Proves: D9, D10. Those of the conventions, those of Langfuse and our own."""
    retried = call(
        "error", error_code="-32000", retries=1, queued=1.0, user_id="u", session_id="s", conversation_id="c",
        tenant="t", key_id="k", via="call_tool", answered_by="b", sent_name="n", rule="r", rule_source="f:1",
        steps=[Stage("policy", 0, 0), Stage("upstream", 0, 0), Stage("upstream", 0, 0)],
    )  # fmt: skip
    found = spans_of(retried, str, ("{}", "{}"), lambda server: hop_to("https://mcp.example.com/mcp", None))
    spans = [*found, *spans_of(unknown_tool(), str)]
    spans += [span for method in ITEMS for span in spans_of(item(method), str)]
    named = {attribute for span in spans for attribute in span.attributes} - {"langfuse.observation.level"}
    assert {attribute for attribute in named if f"`{attribute}`" not in PAGE} == set()


def test_every_variable_and_every_end_is_on_the_page() -> None:
    variables = [*spans_settings.ENDPOINTS, spans_settings.EXPORTER, spans_settings.DISABLED]
    variables += [otel_environment.SAMPLER, otel_environment.ARGUMENT, spans_settings.PROTOCOLS[1]]
    assert [name for name in variables if f"`{name}`" not in PAGE] == []
    for status in STATUSES:
        row = next(line for line in PAGE.splitlines() if re.match(rf"\| .*`{status}`.* \| (unset|error) \|", line))
        assert (f"`{FAILURES[status]}`" in row) == (FAILURES[status] is not None)


def test_the_yaml_on_the_page_is_yaml() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 3
    assert all(isinstance(yaml.safe_load(block), dict) for block in blocks)
