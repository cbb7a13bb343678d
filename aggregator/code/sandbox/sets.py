"""Methods of sets that take several others, or change the set: the interpreter has those for one other alone."""

import ast
from typing import Final

from aggregator.code.sandbox.syntax import call

_OF_ANY_NUMBER: Final = frozenset({"union", "intersection", "difference"})
_CHANGING: Final = frozenset({"difference_update", "intersection_update", "symmetric_difference_update"})
LACKING_SETS: Final = (
    r"\.(?:union|intersection|difference|(?:symmetric_difference|intersection|difference)_update)\(|"
    r"\.update\([ \t]*\*(?!\*)|\.update\([^\n=]*,"
)

SETS: Final = """
def _x_of_sets(said, one, *given):
    if not isinstance(one, (set, frozenset)):
        return getattr(one, said)(*given)
    kind, made = said.replace("_update", ""), set(one)
    for other in given:
        other = set(other)
        if kind == "intersection":
            made &= other
        elif kind == "difference":
            made -= other
        elif kind == "symmetric_difference":
            made ^= other
        else:
            made |= other
    if said[-6:] != "update":
        return frozenset(made) if isinstance(one, frozenset) else made
    one.clear()
    one.update(made)
"""


class SetForms(ast.NodeTransformer):
    """Rewrites calls of such methods; `changed` tells whether a program has any. `own`: names that it defines."""

    def __init__(self, own: frozenset[str]) -> None:
        self.changed = False
        self._own = own

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        of = node.func
        if not isinstance(of, ast.Attribute) or of.attr in self._own or node.keywords or not _lacks(of.attr, node.args):
            return node
        self.changed = True
        # set.union(*found): the first is the set.
        by_type = isinstance(of.value, ast.Name) and of.value.id in ("set", "frozenset")
        return call("_x_of_sets", ast.Constant(of.attr), *([] if by_type else [of.value]), *node.args)


def _lacks(method: str, given: list[ast.expr]) -> bool:
    several = len(given) > 1 or any(isinstance(one, ast.Starred) for one in given)
    if method == "update":
        return several
    return method in _CHANGING or (method in _OF_ANY_NUMBER and (several or not given))
