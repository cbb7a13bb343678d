"""The value that a program ends with: a large one becomes a text within the sandbox.

Other values cross the border as they are, and each part of them costs time of the event loop.
"""

import ast
import re
from collections.abc import Iterator
from typing import Final

_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LINE_END: Final = re.compile(rb"\r\n?|\n")

SHOWN: Final = """
# Parts of a value, and characters of its texts, that cross the border without being a text.
_x_most_parts, _x_most_letters = 2_000, 100_000

def _x_is_large(value):
    waiting, parts, letters = [value], 0, 0
    while waiting:
        one = waiting.pop()
        kind = type(one)
        if kind is str:
            letters += len(one)
        elif kind in (dict, list, tuple, set, frozenset):
            parts += len(one)
            if parts > _x_most_parts:
                return True
            waiting.extend(one)
            if kind is dict:
                waiting.extend(one.values())
        if letters > _x_most_letters:
            return True
    return False

def _x_key(key):
    return key if key is None or isinstance(key, (str, int, float, bool)) else str(key)

def _x_without_types(value):
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, dict):
        return {_x_key(key): _x_without_types(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_x_without_types(one) for one in value]
    if hasattr(value, "__dataclass_fields__"):
        return {name: _x_without_types(getattr(value, name)) for name in value.__dataclass_fields__}
    return str(value)

def _x_shown(value):
    if type(value) is str or not _x_is_large(value):
        return value
    for known in (lambda one: one, _x_without_types):
        try:
            return _json.dumps(known(value), ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            pass
    # It holds itself, or is too deep for JSON.
    try:
        return repr(value)
    except RecursionError:
        return "a value that is too deep to be shown"
"""


def with_end(code: str) -> str:
    """Return a program whose last value goes by `_x_shown`; its lines keep their numbers."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # The interpreter names its fault, or knows a newer Python.
        return code
    data = code.encode()
    starts = [0, *(found.end() for found in _LINE_END.finditer(data))]
    pieces: list[bytes] = []
    past = 0
    for node in sorted(_values(tree), key=lambda node: (node.lineno, node.col_offset)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        pieces += (data[past:start], b"_x_shown((", data[start:end], b"))")
        past = end
    return b"".join((*pieces, data[past:])).decode()


def _values(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the last expression, and those of `return` outside functions."""
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not _prints(tree.body[-1].value):
        yield tree.body[-1].value
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case) and not isinstance(node, _SCOPES):
            waiting += ast.iter_child_nodes(node)


def _prints(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
