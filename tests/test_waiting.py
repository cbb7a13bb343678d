"""Holds every coroutine of the package to a rule about waiting, by reading the source: nothing is run.

Rule: `asyncio.gather` is given coroutines made in its own argument list. From Python 3.12 on it returns at once,
without a turn of the event loop, where all that it is given has ended: a loop that waits for a callback's work by that
never ends.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.source_trees import parsed

PACKAGE: Final = Path(__file__).resolve().parents[1] / "aggregator"


def gathered(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield every argument of a call of `gather` that is not made there."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        if getattr(call.func, "attr", getattr(call.func, "id", None)) != "gather":
            continue
        for argument in call.args:
            made = argument.value if isinstance(argument, ast.Starred) else argument
            if isinstance(made, ast.GeneratorExp | ast.ListComp):
                made = made.elt
            if not isinstance(made, ast.Call):
                yield argument


def test_gather_is_given_what_has_not_begun() -> None:
    found = [
        f"{path}:{argument.lineno}" for path in sorted(PACKAGE.rglob("*.py")) for argument in gathered(parsed(path))
    ]
    assert not found, "use `asyncio.wait`, and drop from the collection what it returns as done"


@pytest.mark.parametrize(
    ("source", "refused"),
    [("asyncio.gather(*tasks)", 1), ("gather(one, two())", 1), ("asyncio.gather(*(ask(one) for one in all))", 0)],
)
def test_the_rule_itself(source: str, refused: int) -> None:
    assert len(list(gathered(ast.parse(source)))) == refused
