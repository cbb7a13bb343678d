"""`health` and `fallbacks` in the configuration: what is taken, what is told, and what `aggregator check` finds."""

import json
import sys
from pathlib import Path

import pytest

from aggregator.cli import check
from aggregator.config.load import Loaded, load
from aggregator.config.server_config import ServerConfig
from tests.faults.app_harness import RAW, Json


def read(folder: Path, servers: Json) -> Loaded:
    path = folder / "aggregator.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return load(path, {})


def servers(loaded: Loaded) -> dict[str, ServerConfig]:
    return {server.id: server for server in loaded.config.servers}


def test_servers_are_named_by_their_keys(tmp_path: Path) -> None:
    """Proves: C18. A key that is no name becomes the id; a tool keeps its dots."""
    first = {"command": "x", "fallbacks": ["My second.one", "third"], "tools": {"fallbacks": {"s_*": ["third.a.b"]}}}
    loaded = read(
        tmp_path, {"first": first, "My second.one": {"command": "x", "prefix": "s"}, "third": {"command": "x"}}
    )
    assert not [problem for problem in loaded.problems if "fallbacks" in problem.where]
    found = servers(loaded)["first"]
    assert found.fallbacks == ("My-second-one", "third")
    assert found.tools.fallbacks == {"s_*": ("third.a.b",)}


@pytest.mark.parametrize(
    ("entry", "where", "said"),
    [
        (
            {"fallbacks": ["secnd"]},
            "fallbacks[0]",
            "No server is called `secnd`; this is left out. Did you mean `second`?",
        ),
        ({"fallbacks": ["second", "first"]}, "fallbacks[1]", "A server cannot stand in for itself; this is left out."),
        ({"fallbacks": ["second.get"]}, "fallbacks[0]", "Whole servers are named here, not tools; this is left out."),
        ({"tools": {"fallbacks": {"get": ["third.x"]}}}, "tools.fallbacks.get[0]", "No server is called `third`"),
    ],
)
def test_what_cannot_stand_in_is_left_out_and_told(tmp_path: Path, entry: Json, where: str, said: str) -> None:
    """Proves: C18. One bad name costs itself: the server is there, and so are its other fallbacks."""
    loaded = read(tmp_path, {"first": {"command": "x", **entry}, "second": {"command": "x"}})
    (problem,) = loaded.problems
    assert problem.severity == "warning"
    assert problem.where == f"mcpServers.first.{where}"
    assert said in str(problem)
    found = servers(loaded)["first"]
    assert "secnd" not in found.fallbacks
    assert "first" not in found.fallbacks
    assert not any(found.tools.fallbacks.values())


def test_health_has_sane_defaults_and_bounds(tmp_path: Path) -> None:
    """Proves: C18"""
    loaded = read(
        tmp_path,
        {
            "plain": {"command": "x"},
            "own": {"command": "x", "health": {"interval": "5s", "timeout": 2, "failures": 1, "enabled": False}},
            "odd": {"command": "x", "health": {"intervall": 1}},
            "bad": {"command": "x", "health": {"failures": 0}},
        },
    )
    plain, own = servers(loaded)["plain"].health, servers(loaded)["own"].health
    assert (plain.enabled, plain.interval, plain.timeout, plain.failures) == (True, 30, 10, 3)
    assert (own.enabled, own.interval, own.timeout, own.failures) == (False, 5, 2, 1)
    said = [str(problem) for problem in loaded.problems]
    assert any("mcpServers.odd.health.intervall: This key is not known" in line for line in said)
    assert any("mcpServers.bad.health.failures: Expected" in line for line in said)
    assert "odd" in servers(loaded)
    assert "bad" not in servers(loaded)


def test_check_tells_what_does_not_go_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: C18. Ahead of the day on which it is needed; it is a warning, so that all else is still good."""
    listing = tmp_path / "tools.json"
    strict = {"type": "object", "properties": {"say": {"type": "string"}}, "required": ["say"]}
    listing.write_text(json.dumps({"tools": [{"name": "echo", "inputSchema": strict}]}))
    raw = {"command": sys.executable, "args": ["-I", "-S", str(RAW), "serve"]}
    first = {**raw, "fallbacks": ["second"], "tools": {"include": ["echo"]}}
    loaded = read(tmp_path, {"first": first, "second": {**raw, "env": {"RAW_TOOLS": str(listing)}}})
    assert loaded.path is not None
    assert check.run(loaded.path, True) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["problems"] == [
        f"warning: {loaded.path}: fallbacks: second.echo cannot stand in for first.echo: "
        "of its arguments, `say` is required there."
    ]
