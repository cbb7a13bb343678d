"""The section on health checks and fallbacks: its configurations load, and it quotes what the program says."""

import json
import re
from pathlib import Path
from typing import Final

import pytest

from aggregator.config.load import load
from aggregator.upstream.health.circuit_breaker import CircuitBreaker
from aggregator.upstream.health.health import KEPT, SLOW, TRIALS, WINDOW

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "supervision.md"
TEXT: Final = PAGE.read_text(encoding="utf-8").partition("\n## Health checks and fallbacks\n")[2]
CONFIGS: Final = [block for block in re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL) if "mcpServers" in block]


@pytest.mark.parametrize("number", range(len(CONFIGS)))
def test_its_configurations_load(tmp_path: Path, number: int) -> None:
    path = tmp_path / "aggregator.json"
    path.write_text(CONFIGS[number])
    loaded = load(path, {})
    assert not loaded.problems
    maps = loaded.config.servers[0]
    assert maps.health.failures == 3
    assert number == 0 or maps.fallbacks == ("maps-spare", "atlas")
    assert number == 0 or maps.tools.fallbacks == {"search_*": ("atlas.find",), "book_*": ()}


def test_its_figures_are_those_of_the_program() -> None:
    health = json.loads(CONFIGS[0])["mcpServers"]["maps"]["health"]
    assert health == {"interval": "30s", "timeout": "10s", "failures": 3}
    assert (KEPT, WINDOW, SLOW, TRIALS) == (512, 300, 0.2, 3)
    flat = " ".join(TEXT.split())
    assert "512 calls at most" in flat
    assert "at least a fifth of the last calls" in flat
    assert "After three failed attempts" in flat
    circuit = CircuitBreaker(1)
    circuit.fail(0, 10, 0.999)
    assert circuit.retry - 10 < 1, "pauses begin with less than a second"
