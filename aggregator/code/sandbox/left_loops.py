"""Generators that a program drops before their end: as in Python, their `finally` and `with` then end at once.

A loop over one is left by `break`, `return` or an error; `next`, `zip` and their like take some values of one.
"""

import ast
from collections.abc import Iterator
from typing import Any, Final

from aggregator.code.sandbox.syntax import assign, call, last_name, name
from aggregator.code.sandbox.yields import yields

# Functions that may leave a generator that they are given before its end, and that no other then knows.
_TAKING_SOME: Final = frozenset(
    {"enumerate", "zip", "map", "filter", "any", "all", "next", "islice", "takewhile", "dropwhile", "chain"}
)
_DROPPED: Final = "_x_dropped"
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class LeftLoopForms(ast.NodeTransformer):
    """Rewrites `for one in generator(...)` if the generator has something to do at its end."""

    def __init__(self, tree: ast.Module) -> None:
        self._count = 0
        # Whether the function around is a generator.
        self._within = False
        # By their names, also as methods. Generators that take values of these have ends too.
        self._ending: set[str] = set()
        generators = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _is_generator(node)]
        # What may catch an error that leaves a loop.
        within = {id(one) for node in generators for one in ast.walk(node) if _catches(one)}
        self._catching = {id(one) for one in ast.walk(tree) if _catches(one)} - within
        found = {node.name for node in generators if any(map(_has_end, _own(node)))}
        while found - self._ending:
            self._ending |= found
            found = {node.name for node in generators if any(self._takes(one) for one in _own(node))}

    def _takes(self, node: ast.AST) -> bool:
        """Return whether a node takes the values of a generator with an end."""
        taken = node.iter if isinstance(node, ast.For) else node.value if isinstance(node, ast.YieldFrom) else None
        return taken is not None and self._generator(taken) is not None

    def _generator(self, node: ast.expr) -> ast.Call | None:
        """Return the call of a generator whose values a loop takes; None if it has no end, or others may take them."""
        if not isinstance(node, ast.Call):
            return None
        if _is_dropped(node):
            return self._generator(node.args[0])
        if isinstance(node.func, ast.Name) and node.func.id in ("enumerate", "iter") and node.args:
            return self._generator(node.args[0])
        return node if isinstance(node.func, ast.Name | ast.Attribute) and last_name(node) in self._ending else None

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        around, self._within = self._within, _is_generator(node)
        self.generic_visit(node)
        self._within = around
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if self._ending and last_name(node) in _TAKING_SOME:
            node.args = [call(_DROPPED, one) if self._drops(one) else one for one in node.args]
        return node

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        self.generic_visit(node)
        for one in node.generators:
            if self._ending and not one.is_async and self._drops(one.iter):
                one.iter = call(_DROPPED, one.iter)
        return node

    def _drops(self, node: ast.expr) -> bool:
        """Return whether an expression makes a generator with an end, or takes values of one that it makes."""
        if isinstance(node, ast.GeneratorExp):
            return any(_is_dropped(one.iter) for one in node.generators)
        if not isinstance(node, ast.Call) or _is_dropped(node):
            return False
        if last_name(node) in _TAKING_SOME:
            return any(map(_is_dropped, node.args))
        return isinstance(node.func, ast.Name | ast.Attribute) and last_name(node) in self._ending

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        taken: ast.expr | None = self._generator(node.iter)
        if taken is None and self._drops(node.iter):
            taken = node.iter
        caught = taken is not None and self._is_caught(node)
        if taken is None or not (self._within or caught or any(map(_leaves, node.body))):
            return node
        self._count += 1
        held = f"_x_held{self._count}"
        start = assign(held, _copied(taken))
        node.iter = _Replaced(taken, name(held)).visit(node.iter)
        closing = ast.Expr(call("_x_close", name(held)))
        if self._within or caught:
            # The generator around the loop may be closed at a `yield` in it, and an error may leave it.
            made: list[ast.stmt] = [start, ast.Try([node], [], [], [closing])]
        else:
            # An error that passes a `finally` would lose its line.
            leaving = _Returns(held)
            node.body = [one for part in node.body for one in leaving.statements(part)]
            made = [start, node, closing]
        return [ast.copy_location(one, node) for one in made]

    def _is_caught(self, node: ast.For) -> bool:
        """Return whether something outside of a loop may catch an error that leaves it."""
        return bool(self._catching - {id(one) for one in ast.walk(node) if _catches(one)})


class _Returns(ast.NodeTransformer):
    """Closes a generator before each `return` of a loop over it."""

    def __init__(self, held: str) -> None:
        self._held = held

    def statements(self, node: ast.stmt) -> list[ast.stmt]:
        """Return the statements that stand for one of the loop."""
        made = self.visit(node)
        return made if isinstance(made, list) else [made]

    def visit(self, node: ast.AST) -> Any:
        return node if isinstance(node, _FUNCTIONS) else super().visit(node)

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        value = assign("_x_left_with", node.value or ast.Constant(None))
        made = [value, ast.Expr(call("_x_close", name(self._held))), ast.Return(name("_x_left_with"))]
        return [ast.copy_location(one, node) for one in made]


class _Replaced(ast.NodeTransformer):
    """Puts a name in the place of an expression."""

    def __init__(self, replaced: ast.expr, new: ast.Name) -> None:
        self._replaced, self._new = replaced, new

    def visit(self, node: ast.AST) -> Any:
        return self._new if node is self._replaced else super().visit(node)


def _copied(node: ast.expr) -> ast.expr:
    """Return an expression that is another node: the tree has the first one in another place."""
    if isinstance(node, ast.Call):
        return ast.Call(node.func, node.args, node.keywords)
    return node


def _is_dropped(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node) == _DROPPED


def _catches(node: ast.AST) -> bool:
    """Return whether a node may catch errors."""
    return isinstance(node, ast.ExceptHandler) or (isinstance(node, ast.Call) and last_name(node) == "suppress")


def _own(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those of functions within it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, _FUNCTIONS):
            yield node
            waiting += ast.iter_child_nodes(node)


def _is_generator(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(map(yields, function.body))


def _has_end(node: ast.AST) -> bool:
    """Return whether a statement does something when the generator around it is closed."""
    return isinstance(node, ast.Try | ast.With)


def _leaves(node: ast.AST) -> bool:
    """Return whether `break` or `return` stands in a statement; a `break` may be that of a loop within."""
    if isinstance(node, ast.Break | ast.Return):
        return True
    return not isinstance(node, _FUNCTIONS) and any(map(_leaves, ast.iter_child_nodes(node)))
