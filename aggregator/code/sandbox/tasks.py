"""Tasks of asyncio, which are values of a class of the prelude (`asyncio_source`), and so cannot be awaited."""

import ast
from typing import Final

from aggregator.code.sandbox.syntax import call, last_name

LACKING_TASKS: Final = r"\b(?:create_task|ensure_future)\("
_MAKING: Final = frozenset({"create_task", "ensure_future"})

TASKS: Final = """
def _x_task(one, **more):
    return one if type(one) is _Task else _Task(one)

async def _x_awaited(one):
    return await one._outcome() if type(one) is _Task else await one
"""


def makes_tasks(tree: ast.Module, own: frozenset[str]) -> bool:
    """Return whether a program makes tasks; `own` are the functions that it defines."""
    return any(_makes(node, own) for node in ast.walk(tree))


class TaskForms(ast.NodeTransformer):
    """Rewrites the making of tasks, and `await` of what may be one."""

    def __init__(self, own: frozenset[str]) -> None:
        self._own = own

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return call("_x_task", *node.args) if _makes(node, self._own) else node

    def visit_Await(self, node: ast.Await) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.value, ast.Call) or last_name(node.value) == "_x_task":
            node.value = call("_x_awaited", node.value)
        return node


def _makes(node: ast.AST, own: frozenset[str]) -> bool:
    if not isinstance(node, ast.Call) or last_name(node.func) not in _MAKING - own or len(node.args) != 1:
        return False
    # Those of a group run when its block ends.
    of = node.func
    return isinstance(of, ast.Name) or (isinstance(of, ast.Attribute) and last_name(of.value) == "asyncio")
