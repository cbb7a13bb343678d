"""Methods of built-in types that the interpreter lacks: `x.isocalendar()` becomes a function of the prelude."""

import ast
import re
from typing import Final

from aggregator.code.sandbox.syntax import assign, call, key_of, last_name, name

_METHODS: Final = (
    *("isocalendar", "toordinal", "utcnow", "fromtimestamp", "utcfromtimestamp", "fromisocalendar", "fromordinal"),
    *("translate", "maketrans", "format_map", "is_integer", "to_bytes", "from_bytes", "bit_length"),
    *("move_to_end", "popitem", "strptime", "timetuple", "relative_to", "is_relative_to"),
)
# Methods of types themselves.
_OF_TYPES: Final = frozenset({"fromkeys", "maketrans", "fromhex", "from_bytes", "from_iterable", "__name__"})
_TYPES: Final = frozenset({"str", "list", "dict", "set", "bytes", "int", "float"})
# What a JSONDecodeError knows of its fault.
_ERROR_PARTS: Final = frozenset({"msg", "pos", "lineno", "colno"})
# Methods of a match that take the name of a group.
_PLACES: Final = frozenset({"span", "start", "end"})
# Methods of a match that take what stands for a group without a match.
_GROUPS: Final = frozenset({"groups", "groupdict"})
# Methods that an operator calls, as functions; the values of the interpreter lack them.
_OPERATORS: Final = {"__getitem__": "lambda _v, _one: _v[_one]", "__contains__": "lambda _v, _one: _one in _v"}
# Methods of values that programs pass on: `found = names.append`.
_VALUES: Final = frozenset(
    {
        "add",
        "append",
        "count",
        "extend",
        "get",
        "index",
        "appendleft",
        "popleft",
        "setdefault",
        "startswith",
        "endswith",
        "strip",
        "upper",
        "lower",
        "join",
        *(
            "findall",
            "format",
            "fromhex",
            "fromisoformat",
            "fromkeys",
            "fromtimestamp",
            "fullmatch",
            "isdigit",
            "match",
        ),
        *("pop", "replace", "rstrip", "search", "split", "strptime", "title", "update"),
    }
)
LACKING_METHODS: Final = (
    rf"\bbytes\(|\bobject\(\)|\.(?:{'|'.join(sorted(_ERROR_PARTS))})\b|"
    rf"\.(?:{'|'.join(sorted(_PLACES))})\([ \t]*[\w\"']|"
    rf"\.(?:{'|'.join(sorted(_VALUES))})\b(?!\s*\()|"
    rf"\.(?:{'|'.join(sorted(_GROUPS))})\([ \t]*[^\s)]|\w\.(?:{'|'.join(_OPERATORS)})\b|"
    rf"\.(?:{'|'.join(_METHODS)})\(|\.today\(|\bcallable\(|\bascii\(|\.parents\b|\btimedelta\(|\bround\(|\bdel\b|\bvars\(|\.__dict__\b|\.lastgroup\b|\bsys\.std(?:out|err)\.|\.subn?\(|\.__name__\b|\bsys\.exit\b|\bSystemExit\b"
    rf"|(?<![\w.])(?:{'|'.join(sorted(_TYPES))})\.(?!(?:{'|'.join(sorted(_OF_TYPES))})\b)[a-z]"
)


class MethodForms(ast.NodeTransformer):
    """Rewrites the calls of such methods; `changed`, `subs` and `times` tell what of the prelude a program needs."""

    def __init__(self, own: frozenset[str], managers: bool, attributes: tuple[str, ...]) -> None:
        # The methods that the program defines itself.
        self._own = own
        # Whether it has asynchronous context managers other than semaphores.
        self._managers = managers
        # The names that attributes of instances may have.
        self._attributes = attributes
        self._count = 0
        # The attributes that are called where they stand.
        self._called: set[int] = set()
        self.changed = False
        self.subs = False
        self.times = False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self._called.add(id(node.func))
        self.generic_visit(node)
        of = node.func
        if isinstance(of, ast.Attribute) and of.attr in ("write", "flush") and _is_stream(of.value):
            self.changed = True
            return ast.Call(name("print"), node.args, [ast.keyword("end", ast.Constant(""))])
        if isinstance(of, ast.Attribute) and of.attr == "exit" and last_name(of.value) == "sys":
            self.changed = True
            return ast.Call(name("_x_exit"), node.args, node.keywords)
        if last_name(of) == "timedelta" and _may_have_parts(node):
            self.changed = self.times = True
            return ast.Call(name("_x_span"), [of, *node.args], node.keywords)
        if isinstance(of, ast.Name) and of.id in ("round", "vars") and len(node.args) == 1 + (of.id == "round"):
            self.changed = True
            return call("_x_round", *node.args) if of.id == "round" else self._dict_of(node.args[0])
        if isinstance(of, ast.Name) and of.id == "ascii" and len(node.args) == 1 and "ascii" not in self._own:
            self.changed = True
            return ast.JoinedStr([ast.FormattedValue(node.args[0], ord("a"), None)])
        if isinstance(of, ast.Name):
            self.changed |= of.id == "callable"
            if of.id == "object" and not node.args and "object" not in self._own:
                self.changed = True
                return call("_x_Object")
            if of.id == "bytes" and len(node.args) == 1 and not node.keywords and "bytes" not in self._own:
                self.changed = True
                return call("_x_bytes", *node.args)
        elif isinstance(of, ast.Attribute) and of.attr not in self._own:
            by_module = isinstance(of.value, ast.Name) and of.value.id in ("re", "time", "_re")
            if of.attr in ("sub", "subn") and not by_module and node.args and self._may_be_function(node.args[0]):
                self.changed = self.subs = True
                return ast.Call(name(f"_x_method_{of.attr}"), [of.value, *node.args], node.keywords)
            if of.attr in _GROUPS and (node.args or node.keywords):
                self.changed = True
                return ast.Call(name(f"_x_method_{of.attr}"), [of.value, *node.args], node.keywords)
            if of.attr in _PLACES and len(node.args) == 1 and _may_be_text(node.args[0]):
                self.changed = True
                return call("_x_place", of.value, ast.Constant(of.attr), *node.args)
            if of.attr in _METHODS or (of.attr == "today" and _is_datetime(of.value)):
                self.changed = True
                self.times |= of.attr == "strptime"
                return ast.Call(name(f"_x_method_{of.attr}"), [of.value, *node.args], node.keywords)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        of = node.value
        if node.attr == "lastgroup":
            self.changed = True
            return call("_x_last_group", of)
        if node.attr == "parents" and "parents" not in self._own:
            self.changed = True
            return call("_x_parents", of)
        if node.attr == "__dict__":
            return self._dict_of(of)
        if node.attr in _ERROR_PARTS and "__getattr__" not in self._own and id(node) not in self._called:
            self.changed = True
            return call("_x_error_part", of, ast.Constant(node.attr))
        if node.attr == "__name__":
            self.changed = True
            return call("_x_name_of", of)
        if isinstance(of, ast.Name) and of.id in _TYPES and node.attr not in _OF_TYPES:
            self.changed = True
            return name(f"_x_method_{node.attr}") if node.attr in _METHODS else _method(node.attr)
        if node.attr in _OPERATORS and not {node.attr, last_name(of)} & {*self._own, "super", "dict", "list"}:
            self.changed = True
            function = ast.parse(_OPERATORS[node.attr], mode="eval").body
            return call("_x_bound", of, ast.Constant(node.attr), function)
        if node.attr in _VALUES and id(node) not in self._called:
            self.changed = True
            self.times |= node.attr == "strptime"
            method = name(f"_x_method_{node.attr}") if node.attr in _METHODS else _method(node.attr)
            return call("_x_bound", of, ast.Constant(node.attr), method)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        target = node.targets[0]
        if isinstance(target, ast.Attribute) and target.attr == "__name__":
            self.changed = True
            return ast.Expr(call("_x_named", target.value, node.value))
        return node

    def _dict_of(self, node: ast.expr) -> ast.Call:
        self.changed = True
        names: list[ast.expr] = [ast.Constant(one) for one in self._attributes]
        return call("_x_dict_of", node, ast.Tuple(names, ast.Load()))

    def visit_Delete(self, node: ast.Delete) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if any(isinstance(target, ast.Attribute) for target in node.targets):
            return node
        self.changed = True
        made: list[ast.stmt] = []
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                made.append(ast.Expr(call("_x_del", target.value, key_of(target.slice))))
            else:
                made += [assign(one.id, ast.Constant(None)) for one in ast.walk(target) if isinstance(one, ast.Name)]
        return [ast.copy_location(one, node) for one in made]

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if self._limits_only(node):
            return node
        self.changed = True
        statements = node.body
        for item in reversed(node.items):
            self._count += 1
            manager, well, error = (f"_x_{said}{self._count}" for said in ("manager", "well", "error"))
            value = f"await {manager}.__aenter__()"
            entered = ast.parse(
                f"{well} = True\n_x_entered = {value}" if item.optional_vars else f"{well} = True\n{value}"
            )
            if item.optional_vars is not None and isinstance(entered.body[1], ast.Assign):
                entered.body[1].targets = [item.optional_vars]
            tried = ast.parse(
                f"try:\n    try:\n        pass\n    except BaseException as {error}:\n        {well} = False\n"
                f"        if not await {manager}.__aexit__(type({error}), {error}, None):\n            raise\n"
                f"finally:\n    if {well}:\n        await {manager}.__aexit__(None, None, None)"
            ).body[0]
            assert isinstance(tried, ast.Try)
            assert isinstance(tried.body[0], ast.Try)
            tried.body[0].body = statements
            statements = [assign(manager, item.context_expr), *entered.body, tried]
        return [ast.copy_location(one, node) for one in statements]

    def _limits_only(self, node: ast.AsyncWith) -> bool:
        """Return whether a block only limits how many calls run at once, which `rewriting` knows by its name."""
        return (
            all(isinstance(item.context_expr, ast.Name | ast.Attribute) for item in node.items) and not self._managers
        )

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        self.generic_visit(node)
        raised = node.exc
        if isinstance(raised, ast.Call) and isinstance(raised.func, ast.Name) and raised.func.id == "SystemExit":
            self.changed = True
            return ast.Expr(ast.Call(name("_x_exit"), raised.args, raised.keywords))
        return node

    def _may_be_function(self, node: ast.expr) -> bool:
        return not isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp)


def _may_be_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _method(said: str) -> ast.Lambda:
    """Return a function that calls a method of its first argument."""
    given = ast.arguments([], [ast.arg("_v")], ast.arg("_given"), [], [], ast.arg("_more"), [])
    spread: list[ast.expr] = [ast.Starred(name("_given"), ast.Load())]
    of = ast.Attribute(name("_v"), said, ast.Load())
    return ast.Lambda(given, ast.Call(of, spread, [ast.keyword(None, name("_more"))]))


def attributes_of(tree: ast.Module) -> tuple[str, ...]:
    """Return the names that attributes of instances may have, as they stand first in a program."""
    made: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            made[node.attr] = None
        elif isinstance(node, ast.Call) and last_name(node) == "SimpleNamespace":
            made |= dict.fromkeys(option.arg for option in node.keywords if option.arg)
    return tuple(made)


def _is_stream(node: ast.expr) -> bool:
    """Return whether an expression is `sys.stdout` or `sys.stderr`."""
    return isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr") and last_name(node.value) == "sys"


def _may_have_parts(node: ast.Call) -> bool:
    """Return whether an argument of a `timedelta` may be a float, which the interpreter does not take."""
    return not all(
        isinstance(one, ast.Constant) and isinstance(one.value, int)
        for one in (*node.args, *(option.value for option in node.keywords))
    )


def _is_datetime(node: ast.expr) -> bool:
    return re.search(r"\bdatetime$", ast.unparse(node)) is not None
