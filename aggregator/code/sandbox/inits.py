"""Dataclasses with fields that `__init__` does not take, takes by name alone, or only passes on.

They get an `__init__` of their own, as the interpreter's takes every field by its place.
"""

import ast
from collections.abc import Sequence
from typing import Final, NamedTuple

from aggregator.code.sandbox.syntax import assign, call, last_name, name

LACKING_INITS: Final = r"\bInitVar\b|\binit[ \t]*=[ \t]*False\b|\bkw_only[ \t]*=|\bKW_ONLY\b"

INITS: Final = """
class _x_Unset:
    pass

_x_UNSET = _x_Unset()
"""


class _Field(NamedTuple):
    """A field: its default, or what makes it; whether `__init__` takes it, by name alone, and only passes it on."""

    default: ast.expr | None
    made: ast.expr | None
    given: bool
    passed_on: bool
    named: bool

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
        parts = _own_fields(node, named=_option(maker, "kw_only"))
        own = any(isinstance(part, ast.FunctionDef) and part.name == "__init__" for part in node.body)
        for part in node.body:
            if id(part) in parts and isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                fields[part.target.id] = parts[id(part)]
        self._fields[node.name] = fields
        node.body = [part for part in node.body if not _is_mark(part)]
        plain = all(one.given and not one.passed_on and not one.named for one in fields.values())
        if plain or own:
            return node
        self.changed = True
        body = _fields_of(node, parts, list(inherited.values()))
        ungiven: list[ast.expr] = [ast.Constant(said) for said, one in fields.items() if not one.given]
        body.append(ast.copy_location(assign("_x_ungiven", ast.Tuple(ungiven, ast.Load())), node))
        node.body = [*body, ast.copy_location(_init(fields, frozen=_option(maker, "frozen")), node)]
        return node


def _fields_of(node: ast.ClassDef, parts: dict[int, _Field], inherited: Sequence[_Field]) -> list[ast.stmt]:
    """Return the body of a class with fields as the interpreter takes them: a default after others, none before."""
    body: list[ast.stmt] = []
    # Whether a field before has a default, and one that is taken by its place.
    defaults = any(one.has_default for one in inherited)
    placed = any(one.has_default and not one.named for one in inherited)
    for part in node.body:
        field = parts.get(id(part))
        if field is None or not isinstance(part, ast.AnnAssign):
            body.append(part)
        elif not field.passed_on:
            if not field.given:
                part = _with_default(part, defaults)
            elif defaults and not field.has_default and (field.named or not placed):
                part = _with_none(part)
            body.append(part)
            defaults |= field.given and field.has_default
            placed |= field.given and field.has_default and not field.named
    return body


def _own_fields(node: ast.ClassDef, *, named: bool) -> dict[int, _Field]:
    """Return the fields of a class by their statements. `named`: they are taken by name alone."""
    found: dict[int, _Field] = {}
    for part in node.body:
        if _is_mark(part):
            named = True
        elif isinstance(part, ast.AnnAssign) and last_name(part.annotation) != "ClassVar":
            found[id(part)] = _field_of(part, named=named)
    return found


def _is_mark(part: ast.stmt) -> bool:
    """Return whether a statement is `_: KW_ONLY`, after which fields are taken by name alone."""
    return isinstance(part, ast.AnnAssign) and last_name(part.annotation) == "KW_ONLY"


def _field_of(part: ast.AnnAssign, *, named: bool) -> _Field:
    value = part.value
    passed_on = last_name(part.annotation) == "InitVar"
    if not (isinstance(value, ast.Call) and last_name(value) == "field"):
        return _Field(value, None, True, passed_on, named)
    said = {one.arg: one.value for one in value.keywords}
    given, by_name = said.get("init"), said.get("kw_only")
    left_out = isinstance(given, ast.Constant) and given.value is False
    if isinstance(by_name, ast.Constant):
        named = bool(by_name.value)
    return _Field(said.get("default"), said.get("default_factory"), not left_out, passed_on, named)


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


def _with_none(part: ast.AnnAssign) -> ast.AnnAssign:
    """Return a field without a default, with None for one."""
    if isinstance(part.value, ast.Call):
        part.value.keywords.append(ast.keyword("default", ast.Constant(None)))
    else:
        part.value = ast.Constant(None)
    return part


def _option(maker: ast.expr, said: str) -> bool:
    options = maker.keywords if isinstance(maker, ast.Call) else []
    return any(one.arg == said and isinstance(one.value, ast.Constant) and one.value.value is True for one in options)


def _init(fields: dict[str, _Field], *, frozen: bool) -> ast.FunctionDef:
    body: list[ast.stmt] = []
    for said, one in fields.items():
        value: ast.expr | None = name(said) if one.given else one.default
        if one.made is not None:
            value = ast.Call(one.made, [], [])
            if one.given:
                unset = ast.Compare(name(said), [ast.Is()], [name("_x_UNSET")])
                value = ast.IfExp(unset, value, name(said))
        if value is not None and not one.passed_on:
            body.append(_set(said, value, frozen=frozen))
    passed_on: list[ast.expr] = [name(said) for said, one in fields.items() if one.passed_on]
    after = ast.Call(ast.Attribute(name("self"), "__post_init__", ast.Load()), passed_on, [])
    body.append(ast.If(call("hasattr", name("self"), ast.Constant("__post_init__")), [ast.Expr(after)], []))
    placed = {said: one for said, one in fields.items() if one.given and not one.named}
    named = {said: one for said, one in fields.items() if one.given and one.named}
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.arg(said) for said in ("self", *placed)],
        kwonlyargs=[ast.arg(said) for said in named],
        kw_defaults=[_default(one) for one in named.values()],
        defaults=[default for one in placed.values() if (default := _default(one)) is not None],
    )
    return ast.FunctionDef("__init__", arguments, body, [], None, None)


def _default(field: _Field) -> ast.expr | None:
    return name("_x_UNSET") if field.made is not None else field.default


def _set(said: str, value: ast.expr, *, frozen: bool) -> ast.stmt:
    """Return the statement that sets a field, also of a frozen dataclass."""
    if not frozen:
        return ast.Assign([ast.Attribute(name("self"), said, ast.Store())], value)
    setter = ast.Attribute(name("object"), "__setattr__", ast.Load())
    return ast.Expr(ast.Call(setter, [name("self"), ast.Constant(said), value], []))
