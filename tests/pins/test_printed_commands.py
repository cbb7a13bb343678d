"""The commands about items whose names a server chose so that they mean something else in a command line."""

import json
import re
import sys
from pathlib import Path

import pytest

from aggregator.cli.commands import cli
from aggregator.cli.policy import policy
from tests.pins.test_cli import Shop
from tests.pins_running.pins_harness import reworded, tool

# Options of the command, other items, and the instructions.
NAMES = ["--all", "--config=other.json", "-h", "prompt:order", "tool:order", "instructions"]
PRINTED = re.compile(r"`aggregator pins diff ([^`]*)`")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A server whose tools got such names, and one tool, one prompt and instructions that changed too."""
    monkeypatch.chdir(tmp_path)
    shop = Shop(tmp_path)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "main.yaml").write_text(json.dumps({"agents": {"one": {"allow": ["*", "prompt:*"]}}}))
    shop.says(prompts=[{"name": "order", "description": "Order."}], instructions="Sells goods.")
    shop.is_seen()
    shop.says(
        reworded("order", "Other."),
        tool("invoice"),
        *map(tool, NAMES),
        prompts=[{"name": "order", "description": "Other."}],
        instructions="Sells other goods.",
    )
    shop.is_seen()
    return shop


def run(shop: Shop, command: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["aggregator", "pins", command, "--config", str(shop.path), *words.split()]
    monkeypatch.setattr(sys, "argv", given)
    try:
        ended = cli()
    except SystemExit as exit:
        ended = int(exit.code or 0)
    assert ended == 0, words


@pytest.mark.parametrize("name", NAMES)
def test_a_printed_command_is_about_its_item_alone(
    shop: Shop, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy.explain(shop.path, "one", f"shop.{name}")
    printed = PRINTED.search(capsys.readouterr().out)
    assert printed is not None
    run(shop, "diff", printed[1], monkeypatch)
    shown = capsys.readouterr().out
    assert f"shop.{name}" in shown
    assert "Other." not in shown
    assert "other goods" not in shown
    run(shop, "approve", printed[1], monkeypatch)
    assert capsys.readouterr().out.splitlines() == [f"Approved shop.{name}: it is new."]


def test_the_words_for_other_items_keep_their_meaning(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for word, approved in (("prompt:order", "shop.order (prompt)"), ("instructions", "shop (instructions)")):
        run(shop, "approve", f"shop {word}", monkeypatch)
        said = capsys.readouterr().out
        assert said.startswith(f"Approved {approved}: "), said
        assert len(said.splitlines()) == 1, said
