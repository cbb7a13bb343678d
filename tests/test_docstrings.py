"""Holds docstrings to two facts, by reading the source: public names have one, and the errors they name exist."""

import ast
import builtins
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.source_trees import parsed

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = ROOT / "aggregator"
DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# The share of public classes, functions and methods that have a docstring, in percent.
PUBLIC_DOCUMENTED: Final = 95


def error_names(docs: Iterable[str]) -> Iterator[str]:
    """Yield the exceptions that the `Raises:` parts of docstrings name."""
    for doc in docs:
        for part in re.findall(r"^Raises:\n((?:[ \t]+.*\n?)*)", doc, re.MULTILINE):
            yield from re.findall(r"^ {4}(\w+): ", part, re.MULTILINE)


def public(body: list[ast.stmt]) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the public classes, functions and methods of a body, without nested functions."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body)


def test_every_module_and_nearly_every_public_name_has_a_docstring() -> None:
    trees = {path: parsed(path) for path in PACKAGE.rglob("*.py")}
    assert not [str(path) for path, tree in trees.items() if tree.body and ast.get_docstring(tree) is None]
    named = [node for tree in trees.values() for node in public(tree.body)]
    with_docstring = [node for node in named if ast.get_docstring(node)]
    assert len(with_docstring) * 100 >= PUBLIC_DOCUMENTED * len(named)


def test_the_errors_that_docstrings_name_exist() -> None:
    defined = {*dir(builtins), "asyncio"}
    named: set[tuple[str, str]] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom):
                defined.update(alias.asname or alias.name for alias in node.names)
            elif isinstance(node, DOCUMENTED):
                if isinstance(node, ast.ClassDef):
                    defined.add(node.name)
                doc = ast.get_docstring(node) or ""
                if "Raises:" in doc:
                    named.update((name, path.relative_to(ROOT).as_posix()) for name in error_names([doc]))
    assert len(named) > 100
    assert not sorted((name, path) for name, path in named if name not in defined)
