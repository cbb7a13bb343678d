"""Classes that inherit, and what else of classes the interpreter lacks, written as classes that it has.

A class of a program keeps its body, without the bases and the decorators of its methods. A statement after it tells the
prelude (`classes_source`) its bases and the kinds of its names, so that inheritance happens while the program runs.

Law: what cannot be written so is refused before the program begins.
"""

import ast
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Final

from aggregator.code.sandbox.class_facts import KINDS, Bases, ClassFacts, Function
from aggregator.code.sandbox.refusal import Refusal
from aggregator.code.sandbox.syntax import assign, call, key_of, last_name, name

# Fields and parts of patterns that are written again for heirs.
_MOST_COPIED: Final = 5_000
# Names of exceptions that the interpreter has under another one, or not at all.
_SAME_ERROR: Final = {
    **dict.fromkeys(("IOError", "EnvironmentError", "ConnectionError", "EOFError"), "OSError"),
    **dict.fromkeys(("ConnectionResetError", "ConnectionRefusedError", "ConnectionAbortedError"), "OSError"),
    "UnicodeError": "ValueError",
    "StopAsyncIteration": "Exception",
}
_NO_METHODS: Final = {
    "__getattribute__": "write a method, such as `get(name)`",
    "__setattr__": "write a method, such as `set(name, value)`",
    "__delattr__": "write a method",
    "__new__": "write a function that returns the instance",
    "__init_subclass__": "call a function after each class",
    "__class_getitem__": "write a function",
    "__set_name__": "give the name as an argument",
    "__get__": "write a method",
    "__set__": "write a method",
    "__del__": "call a method at the end",
}
_ASKING: Final = {"getattr": "_x_attr_or", "hasattr": "_x_has"}
_SIGNS: Final[dict[type[ast.cmpop], str]] = {ast.Lt: "<", ast.Gt: ">", ast.LtE: "<=", ast.GtE: ">="}
_IN_PLACE: Final[dict[type[ast.operator], str]] = {
    ast.Add: "__iadd__",
    ast.Sub: "__isub__",
    ast.Mult: "__imul__",
    ast.Div: "__itruediv__",
    ast.BitOr: "__ior__",
    ast.BitAnd: "__iand__",
}
# Methods that Python's own values have, which are called where they stand.
_BUILT_IN: Final = frozenset(
    one for kind in (str, bytes, list, dict, set, tuple, int, float, date, datetime, timedelta) for one in dir(kind)
)
_NO_DECORATOR: Final = frozenset({"abstractmethod", "override", "final", "overload"})


class ClassForms(ast.NodeTransformer):
    """Rewrites the classes of a program, and the uses of their instances."""

    def __init__(self, facts: ClassFacts) -> None:
        self._facts = facts
        # The class and, in a method, the name of its first argument and whether that is the class.
        self._within: list[tuple[str, str, bool]] = []
        self._count = 0
        # The fields of each dataclass, the inherited ones too.
        self._fields: dict[str, dict[str, ast.stmt]] = {}
        # The type of the values of each enumeration; None for any.
        self._mixed: dict[str, str | None] = {}
        self._copied = 0
        # The attributes that are called where they stand.
        self._called: set[int] = set()

    # Classes

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST | list[ast.stmt]:
        bases = Bases(self._facts, node, self._mixed)
        if bases.typed_dict:
            return assign(node.name, name("dict"))
        # Apply a decorator after the inherited members are added. The interpreter makes dataclasses itself.
        decorators = [self.visit(one) for one in node.decorator_list if last_name(one) != "dataclass"]
        node.decorator_list = [self.visit(one) for one in node.decorator_list if last_name(one) == "dataclass"]
        own: dict[str, str] = {}
        body: list[ast.stmt] = []
        before: list[ast.stmt] = []
        after: list[ast.stmt] = []
        members: list[ast.expr] = []
        # Fields of a dataclass that are not shown, and not compared.
        options: dict[str, list[ast.expr]] = {"repr": [], "compare": []}
        for part in _single(node.body):
            if isinstance(part, Function):
                body.append(self._method(node, bases, part, own, after))
            elif isinstance(part, ast.Assign) and all(isinstance(target, ast.Name) for target in part.targets):
                part.value = self.visit(part.value)
                names = [last_name(target) for target in part.targets]
                if bases.enumeration and not names[0].startswith("_"):
                    members += (ast.Tuple([ast.Constant(one), part.value], ast.Load()) for one in names)
                else:
                    own.update(dict.fromkeys(names, "value"))
                    body.append(part)
            elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                if part.value is not None:
                    part.value = self.visit(part.value)
                    if isinstance(part.value, ast.Call) and last_name(part.value) == "field":
                        for option in _taken_options(part.value):
                            options[option].append(ast.Constant(part.target.id))
                    else:
                        own[part.target.id] = "value"
                if not bases.enumeration:
                    body.append(part)
            elif isinstance(part, ast.ClassDef) and not bases.enumeration and self._may_stand_beside(part):
                before += self._block([part])
                own[part.name] = "value"
                body.append(assign(part.name, name(part.name)))
            elif isinstance(part, ast.Pass | ast.Expr):
                # A text that documents it, or `...`.
                continue
            else:
                what = "a class within a class" if isinstance(part, ast.ClassDef) else "such a statement in a class"
                raise Refusal(part.lineno, what, "write it beside the class, or in a method")
        if bases.named_tuple:
            return self._named_tuple(node, bases, body, own, after)
        node.body = self._with_inherited_fields(node, body) or [ast.Pass()]
        node.bases, node.keywords = [], []
        told = [name(node.name), ast.Tuple([name(base) for base in bases.names], ast.Load()), _table(own)]
        if bases.error is not None:
            told.append(name(_SAME_ERROR.get(bases.error, bases.error)))
        after.append(ast.Expr(call("_x_class", *told)))
        if self._facts.fields and _is_dataclass(node):
            listed = [ast.Tuple(options[option], ast.Load()) for option in ("repr", "compare")]
            after.append(ast.Expr(call("_x_fields", name(node.name), *listed)))
        if bases.enumeration:
            mixed = name(bases.mixed) if bases.mixed else ast.Constant(None)
            made = call("_x_Enumeration", name(node.name), ast.List(members, ast.Load()), mixed)
            after.append(assign(node.name, made))
        after += (assign(node.name, ast.Call(one, [name(node.name)], [])) for one in reversed(decorators))
        return [*before, node, *after]

    def _may_stand_beside(self, node: ast.ClassDef) -> bool:
        """Return whether a class within a class may stand before that: if nothing else has its name."""
        return node.name not in self._facts.twice | self._facts.stored

    def _method(
        self, node: ast.ClassDef, bases: Bases, part: Function, own: dict[str, str], after: list[ast.stmt]
    ) -> ast.stmt:
        """Return a method without its decorators; `own` gets its kind, and `after` their effects."""
        instead = _NO_METHODS.get(part.name)
        if instead is not None:
            raise Refusal(part.lineno, f"`{part.name}` of a class", instead)
        kind, applied = "plain", []
        for decorator in part.decorator_list:
            said = last_name(decorator)
            if said in KINDS:
                kind = KINDS[said]
            elif said == "setter":
                kind, part.name = "plain", f"_x_set_{part.name}"
            elif said == "deleter":
                raise Refusal(part.lineno, "a deleter of a property", "write a method")
            elif said not in _NO_DECORATOR:
                applied.append(self.visit(decorator))
        part.decorator_list = []
        if bases.enumeration and part.name == "__init__":
            part.name = "_x_init"
        given = [*part.args.posonlyargs, *part.args.args]
        first = given[0].arg if given and kind != "static" else ""
        self._within.append((node.name, first, kind == "class"))
        part = self._function(part)
        self._within.pop()
        if part.name == "__init__" and node.name in self._facts.errors:
            values: list[ast.expr] = [name(one.arg) for one in given[1:]]
            if part.args.vararg is not None:
                values.append(ast.Starred(name(part.args.vararg.arg), ast.Load()))
            kept = ast.Attribute(name(first), "args", ast.Store())
            part.body.insert(0, ast.Assign([kept], ast.Tuple(values, ast.Load())))
        if part.name == "__exit__" and self._facts.errors and len(given) == 4:
            kinds, error = given[1].arg, given[2].arg
            part.body[:0] = ast.parse(
                f"if {error} is not None:\n    {error} = _x_own({error})\n    {kinds} = type({error})"
            ).body
        own[part.name] = kind
        for decorator in reversed(applied):
            of = ast.Attribute(name(node.name), part.name, ast.Load())
            made = ast.Call(decorator, [of], [])
            target = ast.Attribute(name(node.name), part.name, ast.Store())
            after.append(ast.Assign([target], call("_x_plain", made)))
        return part

    def _with_inherited_fields(self, node: ast.ClassDef, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return the body of a class; a dataclass has the fields of those of the program which it inherits from."""
        fields: dict[str, ast.stmt] = {}
        for base in reversed([last_name(base) for base in node.bases]):
            fields |= self._fields.get(base, {})
        self._copy(node.lineno, len(fields))
        dataclass = _is_dataclass(node)
        rest = []
        for part in body:
            # A field keeps the place that it has in the base.
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name) and part.target.id in fields:
                fields[part.target.id] = part
            else:
                rest.append(part)
        inherited = list(fields.values())
        if dataclass:
            for part in rest:
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                    fields[part.target.id] = part
        self._fields[node.name] = fields
        return [*inherited, *rest] if dataclass else body

    def _copy(self, line: int, parts: int) -> None:
        """Count parts of the program that are written again.

        Raises:
            Refusal: they are too many.
        """
        self._copied += parts
        if self._copied > _MOST_COPIED:
            raise Refusal(line, "so many inherited fields and patterns", "write fewer")

    def _named_tuple(
        self, node: ast.ClassDef, bases: Bases, body: list[ast.stmt], own: dict[str, str], after: list[ast.stmt]
    ) -> list[ast.stmt]:
        fields = [part for part in body if isinstance(part, ast.AnnAssign)]
        methods = [part for part in body if not isinstance(part, ast.AnnAssign)]
        names = [part.target.id for part in fields if isinstance(part.target, ast.Name)]
        defaults = [part.value for part in fields if part.value is not None]
        listed = ast.Tuple([ast.Constant(one) for one in names], ast.Load())
        if not methods:
            made = ast.Call(name("_x_namedtuple"), [ast.Constant(node.name), listed], [])
            made.keywords = [ast.keyword("defaults", ast.Tuple(defaults, ast.Load()))]
            return [assign(node.name, made)]
        own = {field: kind for field, kind in own.items() if field not in names} | {"__init__": "plain"}
        arguments = ast.arguments(
            posonlyargs=[],
            args=[ast.arg(one) for one in ("self", *names)],
            kwonlyargs=[],
            kw_defaults=[],
            defaults=defaults,
        )
        sets: list[ast.stmt] = [ast.Assign([ast.Attribute(name("self"), one, ast.Store())], name(one)) for one in names]
        init = ast.parse("def __init__(self): pass").body[0]
        assert isinstance(init, ast.FunctionDef)
        init.args, init.body = arguments, sets or [ast.Pass()]
        node.bases, node.keywords = [], []
        node.body = [assign("_fields", listed), init, *methods]
        told = call("_x_class", name(node.name), ast.Tuple([name("_x_Tuple")], ast.Load()), _table(own))
        return [node, *after, ast.Expr(told)]

    # Functions and what stands in them

    def _function(self, node: Function) -> Function:
        node.args.defaults = [self.visit(one) for one in node.args.defaults]
        node.args.kw_defaults = [None if one is None else self.visit(one) for one in node.args.kw_defaults]
        node.decorator_list = [self.visit(one) for one in node.decorator_list]
        node.body = self._block(node.body)
        return node

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in statements:
            new = self.visit(statement)
            made += new if isinstance(new, list) else [new]
        return made

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
            if self._is_property(node.target):
                return self.visit_Assign(ast.Assign([node.target], node.value))
        return node

    def _is_property(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Attribute) and node.attr in self._facts.properties

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        of = node.value
        if isinstance(of, ast.Call) and isinstance(of.func, ast.Name) and of.func.id == "super" and self._within:
            cls, first, is_class = self._within[-1]
            if not first:
                raise Refusal(of.lineno, "`super()` in a static method", "name the class")
            kind = name(first) if is_class else call("_x_type", name(first))
            return call("_x_super", name(cls), name(first), kind, ast.Constant(node.attr))
        node.value = self.visit(of)
        if isinstance(node.ctx, ast.Load) and self._is_property(node):
            return call("_x_get", node.value, ast.Constant(node.attr))
        if self._may_be_asked(node):
            return call("_x_attr", node.value, ast.Constant(node.attr))
        return node

    def _may_be_asked(self, node: ast.Attribute) -> bool:
        """Return whether `__getattr__` of a class may give an attribute."""
        if "__getattr__" not in self._facts.methods or not isinstance(node.ctx, ast.Load):
            return False
        if id(node) not in self._called:
            return True
        return node.attr not in _BUILT_IN and node.attr not in self._facts.methods

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Attribute) and self._is_property(target):
            of = self.visit(target.value)
            return ast.Expr(call("_x_set", of, ast.Constant(target.attr), self.visit(node.value)))
        if len(node.targets) == 1 and isinstance(target, ast.Attribute) and self._is_inherited(target.value):
            given = (ast.Constant(target.attr), self.visit(node.value))
            return ast.Expr(call("_x_class_set", target.value, *given))
        return self.generic_visit(node)

    def _is_inherited(self, node: ast.expr) -> bool:
        """Return whether an expression is a class that others may inherit from, whose names they have copies of."""
        if not isinstance(node, ast.Name):
            return False
        return node.id in self._facts.inherited or (bool(self._within) and self._within[-1][1:] == (node.id, True))

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        target = node.target
        if isinstance(target, ast.Attribute) and self._is_property(target):
            of = self.visit(target.value)
            now = ast.BinOp(call("_x_get", of, ast.Constant(target.attr)), node.op, self.visit(node.value))
            return ast.Expr(call("_x_set", of, ast.Constant(target.attr), now))
        in_place = _IN_PLACE.get(type(node.op))
        changing = in_place in self._facts.methods
        inherited = isinstance(target, ast.Attribute) and self._is_inherited(target.value)
        if not (changing or inherited) or any(isinstance(one, ast.Call) for one in ast.walk(target)):
            return self.generic_visit(node)
        now = self.visit(_read(target))
        value = self.visit(node.value)
        new = call("_x_in_place", now, ast.Constant(in_place), value) if changing else ast.BinOp(now, node.op, value)
        if inherited and isinstance(target, ast.Attribute):
            return ast.Expr(call("_x_class_set", target.value, ast.Constant(target.attr), new))
        return ast.Assign([target], new)

    # Exceptions

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if node.exc is not None and self._facts.errors:
            node.exc, node.cause = call("_x_raised", self.visit(node.exc)), None
            return node
        return self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> ast.AST:
        self.generic_visit(node)
        if not self._facts.errors or not node.handlers:
            return node
        self._count += 1
        thrown, own = f"_x_thrown{self._count}", f"_x_own{self._count}"
        ladder: list[ast.stmt] = [ast.Raise()]
        for handler in reversed(node.handlers):
            named = [assign(handler.name, name(own))] if handler.name else []
            body = [*named, *handler.body]
            test = ast.Constant(True) if handler.type is None else call("isinstance", name(own), handler.type)
            ladder = [ast.If(test, body, ladder)]
        kept = assign(own, call("_x_own", name(thrown)))
        node.handlers = [ast.ExceptHandler(name("BaseException"), thrown, [kept, *ladder])]
        return node

    # Comparisons, truth and parts

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if self._facts.ordered and all(type(sign) in _SIGNS for sign in node.ops):
            rest: list[ast.expr] = []
            for sign, one in zip(node.ops, node.comparators, strict=True):
                rest += (ast.Constant(_SIGNS[type(sign)]), one)
            return call("_x_compare", node.left, *rest)
        if "__contains__" in self._facts.methods and len(node.ops) == 1:
            found = call("_x_in", node.left, node.comparators[0])
            if isinstance(node.ops[0], ast.In):
                return found
            if isinstance(node.ops[0], ast.NotIn):
                return ast.UnaryOp(ast.Not(), found)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self._called.add(id(node.func))
        self.generic_visit(node)
        of = node.func
        if "__getattr__" in self._facts.methods and isinstance(of, ast.Name) and of.id in _ASKING:
            of.id = _ASKING[of.id]
        if self._facts.containers:
            if isinstance(of, ast.Name) and of.id == "dict":
                node.args = [call("_x_inside", one) for one in node.args]
            for option in node.keywords:
                if option.arg is None:
                    option.value = call("_x_inside", option.value)
        if self._facts.encoders and last_name(of) in ("dumps", "dump"):
            for option in node.keywords:
                if option.arg == "cls":
                    option.arg, option.value = "default", call("_x_default_of", option.value)
        if self._facts.ordered and isinstance(of, ast.Attribute) and of.attr == "sort":
            return ast.Call(name("_x_sort"), [of.value, *node.args], node.keywords)
        if self._facts.protocols and isinstance(of, ast.Name) and of.id == "bool" and len(node.args) == 1:
            of.id = "_x_truth"
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        if self._facts.containers:
            pairs = zip(node.keys, node.values, strict=True)
            node.values = [call("_x_inside", value) if key is None else value for key, value in pairs]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if "__getitem__" not in self._facts.methods or not isinstance(node.ctx, ast.Load):
            return node
        return call("_x_item", node.value, key_of(node.slice))

    def _truth(self, test: ast.expr) -> ast.expr:
        """Return a test that asks instances for their truth."""
        if self._facts.methods.isdisjoint(("__len__", "__bool__")) or isinstance(test, ast.Compare | ast.Constant):
            return test
        if isinstance(test, ast.BoolOp):
            test.values = [self._truth(one) for one in test.values]
            return test
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return test
        return call("_x_truth", test)

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        node.test = self._truth(node.test)
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        node.test = self._truth(node.test)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        node.test = self._truth(node.test)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            node.operand = self._truth(node.operand)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.ifs = [self._truth(one) for one in node.ifs]
        return node

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        self.generic_visit(node)
        if "__format__" in self._facts.methods and node.conversion == -1:
            spec = node.format_spec or ast.Constant("")
            return ast.FormattedValue(call("_x_format", node.value, spec), -1, None)
        return node

    def visit_MatchClass(self, node: ast.MatchClass) -> ast.AST:
        self.generic_visit(node)
        kind = last_name(node.cls)
        heirs = [heir for heir, bases in self._facts.above.items() if kind in bases]
        if not heirs:
            return node
        self._copy(node.lineno, len(heirs) * sum(1 for _ in ast.walk(node)))
        same = [ast.MatchClass(name(heir), node.patterns, node.kwd_attrs, node.kwd_patterns) for heir in heirs]
        return ast.MatchOr([node, *same])


def _single(statements: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements; those of `a, b = 1, 2` one after the other."""
    for node in statements:
        match node:
            case ast.Assign([ast.Tuple(names)], ast.Tuple(values)) if len(names) == len(values):
                for target, value in zip(names, values, strict=True):
                    yield ast.copy_location(ast.Assign([target], value), node)
            case _:
                yield node


def _taken_options(field: ast.Call) -> list[str]:
    """Take the options from a `field(...)` that the interpreter lacks. Return those that are False."""
    said = {one.arg: one.value for one in field.keywords if one.arg in ("repr", "compare", "hash", "init")}
    field.keywords = [one for one in field.keywords if one.arg not in said]
    if "init" in said and not any(one.arg in ("default", "default_factory") for one in field.keywords):
        # `__post_init__` gives it another.
        field.keywords.append(ast.keyword("default", ast.Constant(None)))
    return [
        str(option)
        for option, value in said.items()
        if option in ("repr", "compare") and isinstance(value, ast.Constant) and value.value is False
    ]


def _read(target: ast.expr) -> ast.expr:
    """Return the expression that reads what a target writes."""
    return ast.parse(ast.unparse(target), mode="eval").body


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any(last_name(decorator) == "dataclass" for decorator in node.decorator_list)


def _table(own: dict[str, str]) -> ast.Dict:
    return ast.Dict([ast.Constant(one) for one in own], [ast.Constant(kind) for kind in own.values()])
