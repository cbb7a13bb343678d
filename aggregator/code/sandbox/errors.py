"""`except*`, groups of exceptions and the causes of exceptions, which the interpreter lacks.

A `TaskGroup` raises the error of a task as it is (`module_sources`), so that a group has one.
"""

import ast
from typing import Final

from aggregator.code.sandbox.refusal import Refusal
from aggregator.code.sandbox.syntax import assign, call, name

_GROUPS: Final = frozenset({"ExceptionGroup", "BaseExceptionGroup"})
LACKING_ERRORS: Final = r"\bexcept[ \t]*\*|\b(?:Base)?ExceptionGroup\b|\.__(?:cause|traceback)__\b"

ERRORS: Final = """
_x_causes = []

class _x_Group:
    def __init__(self, error):
        self.message, self.exceptions = "unhandled errors in a TaskGroup", (error,)
        self.args = (self.message, [error])

    def __str__(self):
        return self.message + " (1 sub-exception)"

    def __repr__(self):
        return f"ExceptionGroup({self.message!r}, {list(self.exceptions)!r})"

def _x_caused(error, cause):
    if repr(error)[:6] == "<class":
        error = error()
    _x_causes.append((error, cause))
    return error

def _x_cause(error):
    for one, cause in reversed(_x_causes):
        if one is error:
            return cause
    return None

def _x_no_trace(error):
    return None
"""


class ErrorForms(ast.NodeTransformer):
    """Rewrites handlers of groups, and causes if the program asks for one; `changed` tells whether it has such."""

    def __init__(self, tree: ast.Module) -> None:
        self.changed = False
        self._causes = any(isinstance(one, ast.Attribute) and one.attr == "__cause__" for one in ast.walk(tree))

    def visit_TryStar(self, node: ast.TryStar) -> ast.AST:
        self.generic_visit(node)
        self.changed = True
        for handler in node.handlers:
            _grouped(handler)
        return ast.copy_location(ast.Try(node.body, node.handlers, node.orelse, node.finalbody), node)

    def visit_Try(self, node: ast.Try) -> ast.AST:
        for handler in node.handlers:
            if isinstance(handler.type, ast.Name) and handler.type.id in _GROUPS:
                self.changed = True
                handler.type = name("Exception")
                _grouped(handler)
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        self.generic_visit(node)
        if self._causes and node.exc is not None and node.cause is not None:
            node.exc, node.cause = call("_x_caused", node.exc, node.cause), None
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr in ("__cause__", "__traceback__") and isinstance(node.ctx, ast.Load):
            self.changed = True
            return call("_x_cause" if node.attr == "__cause__" else "_x_no_trace", node.value)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in _GROUPS:
            raise Refusal(
                node.lineno, f"`{node.id}` other than after `except`", "raise and catch the errors themselves"
            )
        return node


def _grouped(handler: ast.ExceptHandler) -> None:
    """Give the name of a handler the group of the error that it catches."""
    if handler.name:
        handler.body.insert(0, ast.copy_location(assign(handler.name, call("_x_Group", name(handler.name))), handler))
