"""The sources of the package as trees, parsed once in a process for all laws that read them; no test changes one."""

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """Return the tree of a Python file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))
