"""The `yield`s of a generator as statements of their own: `f((yield x))` becomes `y = yield x` and `f(y)`.

What Python computes before such a `yield` is kept in names before it.

Law: a `yield` that runs on a condition within its expression is left where it is, and so refused (`machine`).
"""

import ast
from collections.abc import Callable
from typing import Final

from aggregator.code.sandbox.syntax import assign, name

_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
# Expressions of which only the first part is always computed, and comprehensions, in which no `yield` may stand.
_CONDITIONAL: Final = (
    *(ast.BoolOp, ast.IfExp, ast.Compare),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
# The expression that a statement begins with, by the kind of statement.
_FIRST: Final[dict[type[ast.stmt], str]] = {
    **dict.fromkeys((ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return), "value"),
    **dict.fromkeys((ast.If, ast.While, ast.Assert), "test"),
    **dict.fromkeys((ast.For, ast.AsyncFor), "iter"),
    ast.Match: "subject",
    ast.Raise: "exc",
}
_ALWAYS: Final = (ast.Constant, ast.Name)


def yields(node: ast.AST) -> bool:
    """Return whether `yield` stands in a statement, and not in a function within it."""
    if isinstance(node, ast.Yield | ast.YieldFrom):
        return True
    return not isinstance(node, _SCOPES) and any(map(yields, ast.iter_child_nodes(node)))


class YieldForms:
    """Rewrites the statements of one generator. `number` gives each new name its own."""

    def __init__(self, number: Callable[[], int]) -> None:
        self._number = number
        # Of each node, which stays alive by that, whether it has a `yield`: no part is looked through again.
        self._known: dict[int, tuple[ast.AST, bool]] = {}

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Return statements in which `yield` is all that is assigned, or a statement."""
        made: list[ast.stmt] = []
        for statement in statements:
            made += self._statement(statement) if self._yields(statement) else [statement]
        return made

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, _SCOPES):
            return [node]
        before: list[ast.stmt] = []
        field = _FIRST.get(type(node))
        value = getattr(node, field) if field is not None else None
        if field is not None and value is not None and self._yields(value):
            simple = isinstance(value, ast.Yield | ast.YieldFrom) and isinstance(
                node, ast.Expr | ast.Assign | ast.Return
            )
            if isinstance(node, ast.While):
                return self._while(node)
            setattr(node, field, self._operand(value, before) if simple else self._apart(value, before))
        for part in ("body", "orelse", "finalbody"):
            if getattr(node, part, None):
                setattr(node, part, self.block(getattr(node, part)))
        for case in getattr(node, "handlers", None) or getattr(node, "cases", None) or ():
            case.body = self.block(case.body)
        return [*(ast.copy_location(one, node) for one in before), node]

    def _while(self, node: ast.While) -> list[ast.stmt]:
        if node.orelse:
            return [node]
        before: list[ast.stmt] = []
        test = self._apart(node.test, before)
        ends = ast.If(ast.UnaryOp(ast.Not(), test), [ast.Break()], [])
        node.test = ast.Constant(True)
        node.body = [*(ast.copy_location(one, node) for one in (*before, ends)), *self.block(node.body)]
        return [node]

    def _operand(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """Return a `yield` whose own value has none."""
        if isinstance(node, ast.Yield | ast.YieldFrom) and node.value is not None:
            node.value = self._apart(node.value, before)
        return node

    def _apart(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """Return an expression without `yield`; `before` gets the statements that stand before it."""
        if not self._yields(node):
            return node
        if isinstance(node, _CONDITIONAL):
            return self._beginning(node, before)
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return self._kept(self._operand(node, before), before)
        parts = _parts(node)
        last = max(at for at, (_, _, part) in enumerate(parts) if self._yields(part))
        for at, (owner, place, part) in enumerate(parts):
            if self._yields(part):
                new = self._apart(part, before)
            elif at < last and not isinstance(part, _ALWAYS):
                new = self._kept(part, before)
            else:
                continue
            _put(owner, place, new)
        return node

    def _beginning(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """Take apart what is computed first of an expression whose other parts depend on it."""
        if isinstance(node, ast.BoolOp):
            node.values[0] = self._apart(node.values[0], before)
        elif isinstance(node, ast.IfExp):
            node.test = self._apart(node.test, before)
        elif isinstance(node, ast.Compare):
            if self._yields(node.comparators[0]) and not isinstance(node.left, _ALWAYS):
                node.left = self._kept(self._apart(node.left, before), before)
            node.left = self._apart(node.left, before)
            node.comparators[0] = self._apart(node.comparators[0], before)
        return node

    def _yields(self, node: ast.AST) -> bool:
        """Return whether `yield` stands in a node as it was written."""
        known = self._known.get(id(node))
        if known is None:
            found = isinstance(node, ast.Yield | ast.YieldFrom) or (
                not isinstance(node, _SCOPES) and any(list(map(self._yields, ast.iter_child_nodes(node))))
            )
            known = self._known[id(node)] = (node, found)
        return known[1]

    def _kept(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        new = f"_x_kept{self._number()}"
        before.append(assign(new, node))
        return name(new)


_Place = tuple[ast.AST, str | tuple[str, int], ast.expr]


def _parts(node: ast.expr) -> list[_Place]:
    """Return the parts of an expression in the order in which they are computed, each with its place."""
    if isinstance(node, ast.Call):
        # A call of a method needs its object; the method has no value of its own.
        method = isinstance(node.func, ast.Attribute)
        parts: list[_Place] = [(node.func, "value", node.func.value)] if method else [(node, "func", node.func)]  # type: ignore[attr-defined]
        parts += (
            (one, "value", one.value) if isinstance(one, ast.Starred) else (node, ("args", at), one)
            for at, one in enumerate(node.args)
        )
        return parts + [(one, "value", one.value) for one in node.keywords]
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return [
            (node, (field, at), one)
            for at, pair in enumerate(pairs)
            for field, one in zip(("keys", "values"), pair, strict=True)
            if one is not None
        ]
    found: list[_Place] = []
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.expr) and not (isinstance(node, ast.NamedExpr) and field == "target"):
            found.append((node, field, value))
        elif isinstance(value, list):
            found += (
                (one, "value", one.value)
                if isinstance(one, ast.Starred | ast.FormattedValue)
                else (node, (field, at), one)
                for at, one in enumerate(value)
                if isinstance(one, ast.expr)
            )
    return found


def _put(owner: ast.AST, place: str | tuple[str, int], new: ast.expr) -> None:
    if isinstance(place, str):
        setattr(owner, place, new)
    else:
        getattr(owner, place[0])[place[1]] = new
