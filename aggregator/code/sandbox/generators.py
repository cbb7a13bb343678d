"""Generators, which the interpreter lacks, written as functions that are called once for each value.

The body of a generator becomes blocks between its `yield`s. A call runs from the block that is next to the following
`yield`, so that a generator is as lazy as in Python: the body runs only when the program asks for a value.
Loops and functions that take such values are rewritten too, so that a generator may call tools.

Law: what cannot be written so is refused before the program begins.
"""

import ast
from collections.abc import Sequence
from typing import Final

from aggregator.code.sandbox.machine import machine
from aggregator.code.sandbox.refusal import Refusal
from aggregator.code.sandbox.syntax import assign, call, last_name, name
from aggregator.code.sandbox.yields import YieldForms, yields

# Functions that take all values at once, by their names, and as methods.
_TAKERS: Final = frozenset(
    {
        "list",
        "tuple",
        "set",
        "frozenset",
        "dict",
        "sum",
        "sorted",
        "min",
        "max",
        "reversed",
        "len",
        "Counter",
        "deque",
        "_x_bytes",
    }
)
_TAKING_METHODS: Final = frozenset(
    {
        *("join", "extend", "extendleft", "update", "writerows", "writelines", "union", "intersection", "difference"),
        *("fsum", "prod", "mean", "fmean", "median", "stdev", "pstdev", "variance", "mode", "Counter", "deque"),
        *("groupby", "accumulate", "product", "permutations", "combinations", "starmap", "compress", "nlargest"),
        *("nsmallest", "pairwise", "zip_longest", "batched", "reduce", "fromkeys", "quantiles"),
    }
)
_FUNCTIONS_TAKING: Final = _TAKERS | (_TAKING_METHODS - {"join", "extend", "update", "union"})
# Functions that take a value when they need it; the prelude has them under these names with `_x_`.
_LAZY: Final = frozenset({"enumerate", "zip", "map", "filter", "any", "all", "next", "iter"})
_LAZY_TOOLS: Final = frozenset({"islice", "takewhile", "dropwhile", "chain"})
# Values that are all there already.
_WHOLE: Final = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Constant, ast.ListComp, ast.SetComp, ast.DictComp)
_WHOLE_CALLS: Final = frozenset({"range", "sorted", "list", "items", "keys", "values", "splitlines", "split"})


class GeneratorForms(ast.NodeTransformer):
    """Rewrites the generators of a program, and the loops and calls that take their values."""

    def __init__(self, own: frozenset[str], stops: frozenset[str]) -> None:
        # The functions and classes that the program defines itself, and its names of a caught `StopIteration`.
        self._own = own
        self._stops = stops
        self._count = 0

    def number(self) -> int:
        """Return a number for the names of one statement."""
        self._count += 1
        return self._count

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        generator = any(map(yields, node.body))
        if generator:
            node.body = YieldForms(self.number).block(node.body)
        self.generic_visit(node)
        if generator:
            node.body = machine(node, self.number)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        generator = any(map(yields, node.body))
        if generator:
            node.body = YieldForms(self.number).block(node.body)
        self.generic_visit(node)
        if not generator:
            return node
        body = machine(node, self.number)
        # A call of it returns the generator at once, without `await`.
        made = ast.FunctionDef(node.name, node.args, body, node.decorator_list, node.returns, None)
        return ast.copy_location(made, node)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if any(map(yields, node.body)):
            return node
        number = self.number()
        iterator, value = f"_x_iterator{number}", f"_x_value{number}"
        following = ast.NamedExpr(ast.Name(value, ast.Store()), ast.Await(call("_x_anext", name(iterator))))
        test = ast.Compare(following, [ast.IsNot()], [name("_x_END")])
        loop = ast.While(test, [ast.Assign([node.target], name(value)), *node.body], node.orelse)
        start = assign(iterator, call("_x_aiter", node.iter))
        return [ast.copy_location(start, node), ast.copy_location(loop, node)]

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        if yields(node.body):
            raise Refusal(node.lineno, "`yield` in a lambda", "write a function")
        return self.generic_visit(node)

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if _is_whole(node.iter) or any(map(yields, node.body)):
            return node
        number = self.number()
        iterator, value = f"_x_iterator{number}", f"_x_value{number}"
        following = ast.NamedExpr(ast.Name(value, ast.Store()), call("_x_next", name(iterator)))
        test = ast.Compare(following, [ast.IsNot()], [name("_x_END")])
        loop = ast.While(test, [ast.Assign([node.target], name(value)), *node.body], node.orelse)
        start = assign(iterator, call("_x_iter", node.iter))
        return [ast.copy_location(start, node), ast.copy_location(loop, node)]

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        if node.is_async:
            node.is_async, node.iter = 0, ast.Await(call("_x_gathered", node.iter))
        elif not _is_whole(node.iter):
            node.iter = call("_x_all", node.iter)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        unpacked = any(isinstance(target, ast.Tuple | ast.List) for target in node.targets)
        if unpacked and isinstance(node.value, ast.GeneratorExp):
            self._visit_parts(node.value)
            node.targets = [self.visit(target) for target in node.targets]
            return node
        self.generic_visit(node)
        if unpacked and not isinstance(node.value, ast.Tuple | ast.Yield | ast.YieldFrom):
            node.value = call("_x_all", node.value)
        return node

    def visit_Starred(self, node: ast.Starred) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load) and not _is_whole(node.value):
            node.value = call("_x_all", node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        of = node.func
        said = last_name(of) if isinstance(of, ast.Name | ast.Attribute) else ""
        plain = isinstance(of, ast.Name)
        taking = said in (_FUNCTIONS_TAKING if plain else _TAKING_METHODS) and not (plain and said in self._own)
        if taking:
            # All values are taken: a list of them does as well.
            for one in node.args:
                if isinstance(one, ast.GeneratorExp):
                    self._visit_parts(one)
            node.func = self.visit(of)
            node.args = [one if isinstance(one, ast.GeneratorExp) else self.visit(one) for one in node.args]
            node.keywords = [self.visit(one) for one in node.keywords]
            if said in ("min", "max") and len(node.args) > 1:
                return node
            node.args = [
                one
                if isinstance(one, ast.Starred | ast.GeneratorExp | ast.Lambda) or _is_whole(one)
                else call("_x_all", one)
                for one in node.args
            ]
            return node
        self.generic_visit(node)
        if plain and said in _LAZY and said not in self._own:
            node.func = name(f"_x_{said}_of" if said in ("next", "iter", "all") else f"_x_{said}")
        elif said in _LAZY_TOOLS and said not in self._own and (plain or last_name(node.func.value) == "itertools"):  # type: ignore[attr-defined]
            node.func = name(f"_x_{said}")
        elif said == "from_iterable":
            node.func = name("_x_flat")
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        of = node.value
        if node.attr == "value" and isinstance(of, ast.Name) and of.id in self._stops:
            return call("_x_stop_value", of)
        return node

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        lazy = self._lazy(node)
        if lazy is not None:
            return lazy
        self._visit_parts(node)
        return call("iter", ast.ListComp(node.elt, node.generators))

    def _visit_parts(self, node: ast.GeneratorExp) -> None:
        node.elt = self.visit(node.elt)
        node.generators = [self.visit(one) for one in node.generators]

    def _lazy(self, node: ast.GeneratorExp) -> ast.expr | None:
        """Return a generator expression as a call with functions of its loop variables; None if it cannot be."""
        parts = [node.elt, *node.generators]
        if any(isinstance(one, ast.Await | ast.NamedExpr) for part in parts for one in ast.walk(part)):
            return None
        made: ast.expr = self.visit(node.elt)
        for place, one in reversed(list(enumerate(node.generators))):
            targets = one.target.elts if isinstance(one.target, ast.Tuple) else [one.target]
            if one.is_async or not all(isinstance(target, ast.Name) for target in targets):
                return None
            wanted = [self.visit(test) for test in one.ifs]
            test = wanted[0] if len(wanted) == 1 else ast.BoolOp(ast.And(), wanted)
            spread = ast.Constant(isinstance(one.target, ast.Tuple))
            given = [self.visit(one.iter), _function(targets, made)]
            given += (_function(targets, test) if wanted else ast.Constant(None), spread)
            made = call("_x_each" if place == len(node.generators) - 1 else "_x_flat_each", *given)
        return made


def stops_of(tree: ast.Module) -> frozenset[str]:
    """Return the names that handlers of `StopIteration` give to it."""
    handlers = (node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.type is not None)
    return frozenset(one.name for one in handlers if one.name and last_name(one.type) == "StopIteration")  # type: ignore[arg-type]


def _function(targets: Sequence[ast.expr], body: ast.expr) -> ast.Lambda:
    given = [ast.arg(target.id) for target in targets if isinstance(target, ast.Name)]
    return ast.Lambda(ast.arguments([], given, None, [], [], None, []), body)


def _is_whole(node: ast.expr) -> bool:
    return isinstance(node, _WHOLE) or (isinstance(node, ast.Call) and last_name(node.func) in _WHOLE_CALLS)
