"""`aggregator status`: the sentence about each thing that is not well, from the report of a running aggregator."""

from typing import Final

import pytest

from aggregator.cli.status import _troubles
from tests.peers.toolbox import Json

WELL: Final[Json] = {
    "ready": True,
    "servers": {
        "crm": {"state": "ready", "held": 0, "unsearchable": None, "health": {"circuit": "closed"}},
        "erp": {"state": "starting"},
        "old": {"state": "disabled"},
    },
    "replicas": [{"name": "a"}],
    "differs": [],
    "config": {"broken": False, "problems": ["old news"]},
    "policies": {"broken": False},
    "notify": {"pager": {"state": "ok", "problem": None}},
    "keys": None,
    "audit": "",
}

CHANGES: Final[dict[str, tuple[Json, list[str]]]] = {
    "all is well": ({}, []),
    "stopping": ({"ready": False, "stopping": True}, ["It is shutting down."]),
    "not ready": (
        {"ready": False},
        ["It is not ready: servers are still being connected for the first time."],
    ),
    "not ready for what the database has": (
        {"ready": False, "servers": {"crm": {"state": "ready"}}},
        ["It is not ready: it waits for the database."],
    ),
    "not ready for its pins": ({"ready": False, "pins": "cannot be read"}, ["pins: cannot be read"]),
    "not ready for its keys": ({"ready": False, "keys": "cannot be read"}, ["keys: cannot be read"]),
    "a server is away": ({"servers": {"crm": {"state": "unavailable"}}}, ["Not available: crm."]),
    "a server hangs": (
        {"servers": {"crm": {"state": "ready", "health": {"circuit": "open"}}}},
        ["Connected, but not answering: crm."],
    ),
    "a replica is silent": (
        {"replicas": [{"name": "a"}, {"name": "b", "problem": "no answer"}]},
        ["Not answering: b."],
    ),
    "replicas differ": ({"differs": ["b has other policies."]}, ["b has other policies."]),
    "a broken file": (
        {"config": {"broken": True, "problems": ["line 3", "line 7"]}},
        ["The configuration has errors, so the one that was in force stays: line 3 line 7"],
    ),
    "a broken policy": (
        {"policies": {"broken": True, "effect": "No rules.", "problems": ["line 2"]}},
        ["No rules.", "line 2"],
    ),
    "a receiver fails": (
        {"notify": {"pager": {"state": "failing", "problem": "it answers 500"}}},
        ["Notices do not reach pager: it answers 500."],
    ),
    "held definitions": (
        {"servers": {"crm": {"state": "ready", "held": 2}, "erp": {"state": "ready", "held": 1}}},
        ["Definitions are held, see `aggregator pins status`: crm, erp."],
    ),
    "no words": (
        {"servers": {"crm": {"state": "ready", "unsearchable": "too many tools"}}},
        ["crm: its tools cannot be found by words: too many tools."],
    ),
    "parts": (
        {"audit": "the disk is full", "pins": "cannot be read", "tasks": "the finder failed"},
        ["pins: cannot be read", "tasks: the finder failed", "audit: the disk is full"],
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_not_well_has_a_sentence_and_nothing_else_has(change: str) -> None:
    """Proves: E4, E9."""
    changes, sentences = CHANGES[change]
    assert _troubles({**WELL, **changes}) == sentences
