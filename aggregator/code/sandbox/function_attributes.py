"""Attributes of functions, such as `memo.cache = {}`: the interpreter's functions have none."""

import ast
from typing import Final

from aggregator.code.sandbox.syntax import call, name

FUNCTION_ATTRIBUTES: Final = """
# Of each function its attributes.
_x_of_functions = []

def _x_kept_of(function):
    for one, values in _x_of_functions:
        if one is function:
            return values
    return {}

def _x_function_set(function, name, value):
    if type(function).__name__ != "function":
        setattr(function, name, value)
        return
    values = _x_kept_of(function)
    if not values:
        _x_of_functions.append((function, values))
    values[name] = value

def _x_function_get(function, name):
    values = _x_kept_of(function)
    return values[name] if name in values else getattr(function, name)

def _x_function_has(function, name):
    return name in _x_kept_of(function) or hasattr(function, name)
"""


class FunctionAttributeForms(ast.NodeTransformer):
    """Rewrites what sets and reads attributes of the functions of a program. `changed` tells whether it has such."""

    def __init__(self, tree: ast.Module) -> None:
        methods = {id(part) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for part in node.body}
        self._functions = {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and id(node) not in methods
        }
        self._names = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and self._is_function(node.value)
        } - {"__name__", "__doc__"}
        self.changed = bool(self._names)

    def _is_function(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self._functions

    def _is_ours(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Attribute) and node.attr in self._names and self._is_function(node.value)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load) and self._is_ours(node):
            return call("_x_function_get", node.value, ast.Constant(node.attr))
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Attribute) and self._is_ours(target):
            return ast.Expr(call("_x_function_set", target.value, ast.Constant(target.attr), node.value))
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        target = node.target
        if isinstance(target, ast.Attribute) and self._is_ours(target):
            said = ast.Constant(target.attr)
            new = ast.BinOp(call("_x_function_get", target.value, said), node.op, node.value)
            return ast.Expr(call("_x_function_set", target.value, said, new))
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "hasattr" and self.changed:
            return ast.Call(name("_x_function_has"), node.args, node.keywords)
        return node
