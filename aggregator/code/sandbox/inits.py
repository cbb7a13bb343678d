"""Dataclasses with fields that `__init__` does not take or only passes on: they get an `__init__` of their own."""

import ast
from typing import Final, NamedTuple

from aggregator.code.sandbox.syntax import assign, call, last_name, name

LACKING_INITS: Final = r"\bInitVar\b|\binit[ \t]*=[ \t]*False\b"

INITS: Final = """
class _x_Unset:
    pass

_x_UNSET = _x_Unset()
"""


class _Field(NamedTuple):
    """A field: its default, or what makes it; whether `__init__` takes it, and whether it only passes it on."""

    default: ast.expr | None
    made: ast.expr | None
    given: bool
    passed_on: bool

    @property
    def has_default(self) -> bool:
        """True if a caller may leave the argument out."""
        return self.default is not None or self.made is not None


class InitForms(ast.NodeTransformer):
    """Rewrites such dataclasses and their heirs. `changed` tells whether a program has such."""

    def __init__(self) -> None:
        self.changed = False
        self._fields: dict[str, dict[str, _Field]] = {}

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.generic_visit(node)
        maker = next((one for one in node.decorator_list if last_name(one) == "dataclass"), None)
        if maker is None:
            return node
        inherited: dict[str, _Field] = {}
        for base in reversed(node.bases):
            inherited |= self._fields.get(last_name(base), {})
        fields = dict(inherited)
        parts = {
            id(part): _field_of(part)
            for part in node.body
            if isinstance(part, ast.AnnAssign) and last_name(part.annotation) != "ClassVar"
        }
        own = any(isinstance(part, ast.FunctionDef) and part.name == "__init__" for part in node.body)
        for part in node.body:
            if id(part) in parts and isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                fields[part.target.id] = parts[id(part)]
        self._fields[node.name] = fields
        plain = all(one.given and not one.passed_on for one in fields.values())
        if plain or own or _option(maker, "frozen"):
            return node
        self.changed = True
        body: list[ast.stmt] = []
        defaults = any(one.has_default for one in inherited.values())
        for part in node.body:
            field = parts.get(id(part))
            if field is None or not isinstance(part, ast.AnnAssign):
                body.append(part)
            elif not field.passed_on:
                # The interpreter wants a default after others, and none before a field without.
                body.append(part if field.given else _with_default(part, defaults))
                defaults |= field.given and field.has_default
        ungiven: list[ast.expr] = [ast.Constant(said) for said, one in fields.items() if not one.given]
        body.append(ast.copy_location(assign("_x_ungiven", ast.Tuple(ungiven, ast.Load())), node))
        node.body = [*body, ast.copy_location(_init(fields, keywords=_option(maker, "kw_only")), node)]
        return node


def _field_of(part: ast.AnnAssign) -> _Field:
    value = part.value
    passed_on = last_name(part.annotation) == "InitVar"
    if not (isinstance(value, ast.Call) and last_name(value) == "field"):
        return _Field(value, None, True, passed_on)
    said = {one.arg: one.value for one in value.keywords}
    given = said.get("init")
    left_out = isinstance(given, ast.Constant) and given.value is False
    return _Field(said.get("default"), said.get("default_factory"), not left_out, passed_on)


def _with_default(part: ast.AnnAssign, has_one: bool) -> ast.AnnAssign:
    """Return a field that `__init__` sets, with a default of None or without one."""
    if not isinstance(part.value, ast.Call):
        return part
    options = [one for one in part.value.keywords if one.arg not in ("init", "default", "default_factory")]
    if options:
        part.value.keywords = [*options, *([ast.keyword("default", ast.Constant(None))] if has_one else [])]
    else:
        part.value = ast.Constant(None) if has_one else None
    return part


def _option(maker: ast.expr, said: str) -> bool:
    options = maker.keywords if isinstance(maker, ast.Call) else []
    return any(one.arg == said and isinstance(one.value, ast.Constant) and one.value.value is True for one in options)


def _init(fields: dict[str, _Field], *, keywords: bool) -> ast.FunctionDef:
    given = {said: one for said, one in fields.items() if one.given}
    defaults = [name("_x_UNSET") if one.made is not None else one.default for one in given.values()]
    named = [ast.arg(said) for said in given]
    body: list[ast.stmt] = []
    for said, one in fields.items():
        value: ast.expr | None = name(said) if one.given else one.default
        if one.made is not None:
            value = ast.Call(one.made, [], [])
            if one.given:
                unset = ast.Compare(name(said), [ast.Is()], [name("_x_UNSET")])
                value = ast.IfExp(unset, value, name(said))
        if value is not None and not one.passed_on:
            body.append(ast.Assign([ast.Attribute(name("self"), said, ast.Store())], value))
    passed_on: list[ast.expr] = [name(said) for said, one in fields.items() if one.passed_on]
    after = ast.Call(ast.Attribute(name("self"), "__post_init__", ast.Load()), passed_on, [])
    body.append(ast.If(call("hasattr", name("self"), ast.Constant("__post_init__")), [ast.Expr(after)], []))
    arguments = ast.arguments([], [ast.arg("self"), *([] if keywords else named)], None, [], [], None, [])
    if keywords:
        arguments.kwonlyargs, arguments.kw_defaults = named, list(defaults)
    else:
        arguments.defaults = [one for one in defaults if one is not None]
    return ast.FunctionDef("__init__", arguments, body, [], None, None)
