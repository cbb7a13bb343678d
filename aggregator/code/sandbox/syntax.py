"""Small parts of a syntax tree, for the modules that rewrite programs."""

import ast
import re
from typing import Final

# A form feed or U+2028 in a text begins no line of a program.
_LINE_END: Final = re.compile(r"\r\n?|\n")


def last_name(node: ast.expr) -> str:
    """Return the last part of a dotted name, also of one that is called or subscripted; of anything else ``."""
    if isinstance(node, ast.Call):
        return last_name(node.func)
    if isinstance(node, ast.Subscript):
        return last_name(node.value)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def names_any(tree: ast.AST, *wanted: str) -> bool:
    """Return whether one of the names stands in a program, also as an attribute."""
    return any(isinstance(node, ast.Name | ast.Attribute) and last_name(node) in wanted for node in ast.walk(tree))


def name(identifier: str) -> ast.Name:
    """Return a name that is read."""
    return ast.Name(identifier, ast.Load())


def call(function: str, *given: ast.expr) -> ast.Call:
    """Return a call of a function of the prelude."""
    return ast.Call(name(function), list(given), [])


def assign(target: str, value: ast.expr) -> ast.Assign:
    """Return an assignment to a name."""
    return ast.Assign([ast.Name(target, ast.Store())], value)


def key_of(node: ast.expr) -> ast.expr:
    """Return the key of a subscript as a value."""
    if not isinstance(node, ast.Slice):
        return node
    ends = (node.lower, node.upper, node.step)
    return call("slice", *(ast.Constant(None) if end is None else end for end in ends))


def lines_of(code: str) -> list[str]:
    """Return the lines of a program as Python counts them."""
    return _LINE_END.split(code)
