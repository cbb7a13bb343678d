"""The parts that a result has in MCP and its SDKs, of a result that is the value itself: `result.content[0].text`.

Law: a value that is no result keeps its own attributes and items of these names.
"""

import ast
import re
from typing import Final

from aggregator.code.sandbox.syntax import call

_KEYS: Final = frozenset({"content", "structuredContent", "isError", "result"})
# An attribute, and the part that it stands for; version 2 of the Python SDK writes them with underscores.
_MEMBERS: Final = {
    "content": "content",
    "text": "text",
    "structuredContent": "structuredContent",
    "structured_content": "structuredContent",
    "isError": "isError",
    "is_error": "isError",
}
# A program that may ask for parts, also inside a text, which may be an f-string.
ASKS_PARTS: Final = re.compile(rf"\.\s*(?:{'|'.join(_MEMBERS)})\b|[\[(]\s*[\"'](?:{'|'.join(sorted(_KEYS))})[\"']")

PARTS: Final = """
# Results that may be asked for parts, the later ones if they are large: a value takes about ten times its letters.
_results, _x_weight, _x_most_weight = [], [0], 3_000_000

def _kept(value, beside, letters):
    weight = letters // 10 if isinstance(value, str) else letters
    _results.append((value, beside, weight))
    _x_weight[0] += weight
    while _x_weight[0] > _x_most_weight and len(_results) > 1:
        _x_weight[0] -= _results.pop(0)[2]
    return value

def _x_is_result(value):
    return any([value is one[0] for one in _results])

def _x_said(value):
    for one, beside, weight in _results:
        if value is one and beside is not None:
            return beside
    return value if isinstance(value, str) else _json.dumps(value)

class _x_Block:
    def __init__(self, text):
        self.type, self.text = "text", text

    def get(self, key, default=None):
        return self[key] if key in ("type", "text") else default

    def model_dump(self, **more):
        return {"type": "text", "text": self.text}

    def __getitem__(self, key):
        return {"type": "text", "text": self.text}[key]

    def __repr__(self):
        return f"TextContent(type='text', text={self.text!r})"

def _x_part(value, key):
    if isinstance(value, dict) and key in value:
        return value[key]
    if not (isinstance(value, (str, list)) or _x_is_result(value)):
        return value[key]
    if key == "content":
        return [{"type": "text", "text": _x_said(value)}]
    return False if key == "isError" else value

def _x_member(value, name, key):
    if not (type(value) in (dict, list, str) and _x_is_result(value)):
        return getattr(value, name)
    if key == "text":
        return _x_said(value)
    if key == "content":
        return [_x_Block(_x_said(value))]
    return False if key == "isError" else value

def _x_got(value, key, *default):
    if isinstance(value, list) or key in ("content", "structuredContent", "isError") and _x_is_result(value):
        return _x_part(value, key)
    return value.get(key, *default)
"""


class PartForms(ast.NodeTransformer):
    """Rewrites what asks for parts of a result; `changed` tells whether a program has such."""

    def __init__(self) -> None:
        self.changed = False
        # The attributes that are called where they stand.
        self._called: set[int] = set()

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self._called.add(id(node.func))
        self.generic_visit(node)
        of = node.func
        if isinstance(of, ast.Attribute) and of.attr == "get" and _is_value(of.value) and node.args:
            key = node.args[0]
            if isinstance(key, ast.Constant) and key.value in _KEYS and not node.keywords:
                return self._new("_x_got", of.value, *node.args)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        key = _MEMBERS.get(node.attr)
        if key and isinstance(node.ctx, ast.Load) and id(node) not in self._called and _is_value(node.value):
            return self._new("_x_member", node.value, ast.Constant(node.attr), ast.Constant(key))
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        key = node.slice
        if isinstance(key, ast.Constant) and key.value in _KEYS and isinstance(node.ctx, ast.Load):
            return self._new("_x_part", node.value, key) if _is_value(node.value) else node
        return node

    def _new(self, function: str, *given: ast.expr) -> ast.Call:
        self.changed = True
        return call(function, *given)


def _is_value(node: ast.expr) -> bool:
    """Return whether an expression may be a result: a name, a part of one, or a call of a function by its name."""
    if isinstance(node, ast.Await):
        return _is_value(node.value)
    if isinstance(node, ast.Attribute | ast.Subscript):
        return _is_value(node.value)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id != "super"
    return isinstance(node, ast.Name)
