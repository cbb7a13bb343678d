"""docs/supervision.md is drawn from the table, and says what the configuration says."""

import re
from pathlib import Path

from aggregator.config.server_parts import LimitsConfig
from aggregator.upstream.lifecycle import backoff
from aggregator.upstream.lifecycle import idle as rest
from aggregator.upstream.lifecycle.states import TABLE
from scripts.docs.upstream_states import inserted

PATIENT = True
TEXT = (Path(__file__).parents[2] / "docs" / "supervision.md").read_text(encoding="utf-8")


def test_the_drawing_is_fresh() -> None:
    """Proves: D3, C11"""
    assert inserted(TEXT) == TEXT, "run: sh scripts/generate"


def test_the_diagram_has_every_way_but_the_end() -> None:
    drawn = re.findall(r"^    (\w+) --> (\w+): (.+)$", TEXT, re.MULTILINE)
    ways = {(before, after, event.replace("_", " ")) for (before, event), after in TABLE.items() if event != "stop"}
    assert set(drawn) == ways
    assert len(drawn) == len(ways)


def test_the_figures_are_those_of_the_program() -> None:
    """Proves: D3, C11"""
    for span, cap in ((backoff.FIRST, backoff.CAP), (backoff.REFUSED_FIRST, backoff.REFUSED_CAP)):
        longest = f"{cap:g} s" if cap < 100 else f"{cap / 60:g} min"
        assert f"| {span / 2:g} to {span:g} s | {longest} |" in TEXT
    fields = LimitsConfig.model_fields
    flat = " ".join(TEXT.split())
    assert f"`limits.grace` ({fields['grace'].default:g} s)" in flat
    assert f"`limits.reconnect_wait` ({fields['reconnect_wait'].default:g} s)" in flat
    assert f"has lasted {backoff.STABLE:g} seconds" in flat
    assert f"within {backoff.MOMENT:g} seconds" in flat
    assert f"up to {backoff.RETRY_AFTER_CAP / 60:g} minutes" in flat
    assert f"{rest.LAZY_FROM:g} to {rest.LAZY_TO:g} seconds later" in flat
