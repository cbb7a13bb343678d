"""`docs/what-models-see.md` says what is so."""

import re
from pathlib import Path

from tests.intent.message_table import rows, sample_catalogs

_TEXT = (Path(__file__).parents[2] / "docs" / "what-models-see.md").read_text(encoding="utf-8")
_PAGE = _TEXT.partition("\n## Intent\n")[2].partition("\n## ")[0]
_RULE = re.compile(r"^\| `(\w+)` \| .* \| ([^|]*) \|$", re.MULTILINE)


def test_the_examples_of_the_rules_fire_them() -> None:
    """A2, A3: each example, in one of the small catalogs, by the rule it stands for."""
    examples = [
        (rule, message)
        for rule, cell in _RULE.findall(_PAGE.partition("### What does not")[0])
        for message in re.findall(r"`([^`]+)`", cell)
    ]
    assert {rule for rule, _ in examples} == {"handle", "explicit", "name", "ask", "nearest", "keyword"}
    for rule, message in examples:
        assert rule in {sample.match(message).rule for sample in sample_catalogs().values()}, message


def test_the_page_counts_as_the_table_does() -> None:
    without = sum(row.intent == "none" for row in rows())
    assert f"{len(rows())} messages, Chinese and English, {without} of them without intent" in _PAGE
    for part, count in re.findall(r"^\| `(\w+)` \| (\d+) \|", _PAGE, re.MULTILINE):
        assert sum(row.part == part for row in rows()) == int(count)
