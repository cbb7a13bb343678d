"""`except*`, groups and causes of exceptions, arguments that are no texts, and classes that the interpreter lacks.

The interpreter adds the condition to the text of an `assert`, and the class of an error is another one than its name
stands for: both are written in other ways if the program may catch an error.

A `TaskGroup` raises the error of a task as it is (`asyncio_source`), so that a group has one.
"""

import ast
import builtins
from typing import Final

from aggregator.code.sandbox.refusal import Refusal
from aggregator.code.sandbox.rewriting import KIND_OF
from aggregator.code.sandbox.syntax import assign, call, last_name, name

_GROUPS: Final = frozenset({"ExceptionGroup", "BaseExceptionGroup"})
# Exceptions that become classes of the program, with the class of which each is a kind.
_MISSING: Final = {
    **dict.fromkeys(("ConnectionError", "InterruptedError", "ProcessLookupError"), "OSError"),
    **dict.fromkeys(("ChildProcessError", "BlockingIOError"), "OSError"),
    **dict.fromkeys(("ConnectionResetError", "ConnectionRefusedError"), "ConnectionError"),
    **dict.fromkeys(("ConnectionAbortedError", "BrokenPipeError"), "ConnectionError"),
    **dict.fromkeys(("BufferError", "EOFError", "ReferenceError", "SystemError", "Warning"), "Exception"),
    **dict.fromkeys(("UserWarning", "DeprecationWarning", "RuntimeWarning"), "Warning"),
    "FloatingPointError": "ArithmeticError",
}
_SAME: Final = {"IOError": "OSError", "EnvironmentError": "OSError"}
# Those of the interpreter, which take one text.
_ERRORS: Final = frozenset(
    name
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, Exception) and name not in _MISSING | _SAME
)
LACKING_ERRORS: Final = (
    r"\bexcept[ \t]*\*|\b(?:Base)?ExceptionGroup\b|\.__(?:cause|traceback)__\b"
    # Anything but one text, which is blank or in quotes.
    r"|\b(?:\w*Error|Exception)\((?!\s*[fFrR]{0,2}(?:\s*\)|[\"']))"
    rf"|\b(?:{'|'.join((*_MISSING, *_SAME))})\b"
    r"|\bassert\b|\btype[ \t]*\([ \t]*\w+[ \t]*\)[ \t]*(?:is\b|in\b|not\b|[=!]=)"
)

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

# Errors with arguments that are no texts.
_x_raisings = []

def _x_error(kind, *given):
    if not given or len(given) == 1 and isinstance(given[0], str):
        return kind(*given)
    error = kind(str(given[0] if len(given) == 1 else given))
    _x_raisings.append((error, given))
    return error

def _x_args(error):
    for one, given in _x_raisings:
        if one is error:
            return given
    return error.args
"""


class ErrorForms(ast.NodeTransformer):
    """Rewrites handlers of groups, and causes if the program asks for one; `changed` tells whether it has such."""

    def __init__(self, tree: ast.Module, own: frozenset[str]) -> None:
        self.changed = False
        # The exceptions that the program does not define itself.
        self._own = own
        self._builtin = _ERRORS - own
        self._odd = any(map(self._has_odd_arguments, ast.walk(tree)))
        self._causes = any(isinstance(one, ast.Attribute) and one.attr == "__cause__" for one in ast.walk(tree))
        self._caught = any(map(_catches, ast.walk(tree)))

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

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        if not self._caught:
            # The condition helps the author.
            return self.generic_visit(node)
        self.changed = True
        given = [] if node.msg is None else [node.msg]
        failed = ast.copy_location(ast.Raise(ast.Call(name("AssertionError"), given, [])), node)
        test = ast.UnaryOp(ast.Not(), node.test)
        return self.generic_visit(ast.copy_location(ast.If(test, [failed], []), node))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        self.generic_visit(node)
        if self._caught:
            for one in ast.walk(node):
                if isinstance(one, ast.Compare) and "type" not in self._own:
                    one.left, *one.comparators = map(self._kind, (one.left, *one.comparators))
        return node

    def _kind(self, node: ast.expr) -> ast.expr:
        """Return the class of an error, which `rewriting` finds outside of texts alone."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type":
            self.changed = True
            node.func = name(KIND_OF)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr == "args" and isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name):
            return call("_x_args", node.value) if self._odd else node
        if node.attr in ("__cause__", "__traceback__") and isinstance(node.ctx, ast.Load):
            self.changed = True
            return call("_x_cause" if node.attr == "__cause__" else "_x_no_trace", node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not self._has_odd_arguments(node):
            return node
        self.changed = True
        return ast.Call(name("_x_error"), [node.func, *node.args], node.keywords)

    def _has_odd_arguments(self, node: ast.AST) -> bool:
        """Return whether an exception of the interpreter may be given something else than one text."""
        if isinstance(node, ast.Assert):
            return node.msg is not None and not _is_text(node.msg)
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self._builtin):
            return False
        return len(node.args) > 1 or any(not _is_text(one) for one in node.args)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in _GROUPS:
            raise Refusal(
                node.lineno, f"`{node.id}` other than after `except`", "raise and catch the errors themselves"
            )
        if node.id in _SAME and isinstance(node.ctx, ast.Load):
            self.changed = True
            return name(_SAME[node.id])
        return node


def with_missing_errors(tree: ast.Module, own: frozenset[str]) -> ast.Module:
    """Return a program with classes for the exceptions that it names and the interpreter lacks."""
    wanted: list[str] = []
    for node in ast.walk(tree):
        missing = node.id if isinstance(node, ast.Name) and node.id not in own else None
        while missing in _MISSING:
            wanted.append(missing)
            missing = _MISSING[missing]
    made = "".join(f"class {one}({_MISSING[one]}): pass\n" for one in _MISSING if one in wanted)
    first = 1 if tree.body and isinstance(tree.body[0], ast.ImportFrom) and tree.body[0].module == "__future__" else 0
    classes = ast.parse(made).body
    for one in ast.walk(ast.Module(classes, [])):
        if isinstance(one, ast.stmt | ast.expr):
            one.lineno = one.end_lineno = 1
    tree.body[first:first] = classes
    return tree


def _catches(node: ast.AST) -> bool:
    """Return whether a node may catch errors."""
    return isinstance(node, ast.ExceptHandler) or (isinstance(node, ast.Call) and last_name(node) == "suppress")


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_text(node.left)
    if isinstance(node, ast.Call):
        return last_name(node.func) in ("str", "format", "join", "repr")
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _grouped(handler: ast.ExceptHandler) -> None:
    """Give the name of a handler the group of the error that it catches."""
    if handler.name:
        handler.body.insert(0, ast.copy_location(assign(handler.name, call("_x_Group", name(handler.name))), handler))
