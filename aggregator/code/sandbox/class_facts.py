"""The classes of a program and their bases, read before `classes` rewrites them."""

import ast
import builtins
from typing import Final, NamedTuple

from aggregator.code.sandbox.refusal import Refusal
from aggregator.code.sandbox.syntax import last_name, names_any

_MOST_CLASSES: Final = 100
_NO_BASE: Final = frozenset({"object", "ABC", "Protocol", "Generic"})
_ENUMERATIONS: Final = {"Enum": None, "IntEnum": "int", "StrEnum": "str"}
_MIXED: Final = frozenset({"str", "int", "float"})
_ERRORS: Final = frozenset(
    name
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException) and not issubclass(kind, Warning)
)
# Bases whose instances compare, such as those of an enumeration with texts.
_ORDERED: Final = frozenset({"IntEnum", "StrEnum", "NamedTuple", *_MIXED})
# Bases whose instances hold a dict or a list, or read HTML, by the class of the prelude for each.
_CONTAINERS: Final = {
    **dict.fromkeys(("dict", "OrderedDict"), "_x_Dict"),
    "UserDict": "_x_UserDict",
    **dict.fromkeys(("list", "UserList"), "_x_List"),
}
# Mappings of the modules that the aggregator adds, and the names of those whose instances compare and sort.
MAPPINGS_ADDED: Final = frozenset({"ChainMap", "ConfigParser", "RawConfigParser"})
COMPARING_ADDED: Final = frozenset({"Fraction", "ipaddress", "ip_address", "ip_network", "IPv4Address", "IPv4Network"})
_READER: Final = "HTMLParser"
_ENCODER: Final = "JSONEncoder"
_COMPARING: Final = frozenset({"__lt__", "__gt__", "__le__", "__ge__"})
_PROTOCOLS: Final = frozenset({"__len__", "__bool__", "__getitem__", "__contains__", "__format__", "__reversed__"})
# The kinds of methods, by their decorators.
KINDS: Final = {
    "staticmethod": "static",
    "classmethod": "class",
    "property": "property",
    "cached_property": "cached",
    "abstractproperty": "property",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


class ClassFacts(NamedTuple):
    """The classes of a program, and the features of classes that it uses anywhere."""

    classes: dict[str, ast.ClassDef]
    # The names of the bases of each class, and with the bases of these.
    bases: dict[str, tuple[str, ...]]
    above: dict[str, frozenset[str]]
    errors: frozenset[str]
    twice: frozenset[str]
    # The names of all that is assigned, imported or a function.
    stored: frozenset[str]
    # The classes that others inherit from.
    inherited: frozenset[str]
    properties: frozenset[str]
    methods: frozenset[str]
    ordered: bool
    # Whether a field of a dataclass is not shown, or not compared.
    fields: bool
    # Whether a class inherits from `dict` or `list` or the program has mappings of modules, and whether it has these.
    containers: bool
    mappings: bool
    comparing: bool
    # Whether a class inherits from `HTMLParser`, and from `JSONEncoder`.
    readers: bool
    encoders: bool

    @property
    def protocols(self) -> bool:
        """Whether a class of the program defines `__len__`, `__bool__` or another method of these."""
        return not self.methods.isdisjoint(_PROTOCOLS)


def with_methods_of_bases(tree: ast.Module) -> ast.Module:
    """Return a program whose classes define the methods that they take from a base: `__getattr__ = dict.get`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = {last_name(base) for base in node.bases} & _CONTAINERS.keys()
            node.body = [_method_of_base(part, bases) for part in node.body]
    return tree


def _method_of_base(part: ast.stmt, bases: set[str]) -> ast.stmt:
    if not (isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name) and len(part.targets) == 1):
        return part
    said, of = part.targets[0].id, part.value
    if not (said.startswith("__") and isinstance(of, ast.Attribute) and last_name(of.value) in bases):
        return part
    made = ast.parse(f"def {said}(self, *given):\n    return super().{of.attr}(*given)").body[0]
    return ast.fix_missing_locations(ast.copy_location(made, part))


def facts_of(tree: ast.Module) -> ClassFacts:
    """Return the facts about the classes of a program.

    Raises:
        Refusal: it has too many of them.
    """
    classes: dict[str, ast.ClassDef] = {}
    twice: set[str] = set()
    properties: set[str] = set()
    methods: set[str] = set()
    stored: set[str] = set()
    ordered = fields = containers = readers = encoders = False
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            twice |= {node.name} & classes.keys()
            classes[node.name] = node
            for decorator in node.decorator_list:
                options = decorator.keywords if isinstance(decorator, ast.Call) else []
                ordered |= any(option.arg == "order" for option in options)
            ordered |= any(last_name(base) in _ORDERED for base in node.bases)
            if any(last_name(base) in _ENUMERATIONS for base in node.bases):
                # Of the enumeration itself.
                methods.add("__len__")
            if any(last_name(base) == "NamedTuple" for base in node.bases):
                methods.add("__len__")
            containers |= any(last_name(base) in _CONTAINERS for base in node.bases)
            readers |= any(last_name(base) == _READER for base in node.bases)
            encoders |= any(last_name(base) == _ENCODER for base in node.bases)
            for part in node.body:
                if isinstance(part, Function):
                    methods.add(part.name)
                    if any(KINDS.get(last_name(of)) in ("property", "cached") for of in part.decorator_list):
                        properties.add(part.name)
        elif isinstance(node, Function):
            stored.add(node.name)
        elif isinstance(node, ast.alias):
            stored.add(node.asname or node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored.add(node.id)
        elif isinstance(node, ast.Call) and last_name(node) == "field":
            fields |= any(option.arg in ("repr", "compare", "hash", "init") for option in node.keywords)
        elif isinstance(node, ast.Name | ast.Attribute) and last_name(node) == "cmp_to_key":
            ordered = True
    mappings = names_any(tree, *(MAPPINGS_ADDED - classes.keys()))
    if containers or mappings:
        methods |= {"__len__", "__getitem__", "__contains__", "__iter__"}
    comparing = names_any(tree, *(COMPARING_ADDED - classes.keys()))
    if comparing:
        methods |= {"__bool__", "__contains__", "__getitem__", "__iter__"}
    ordered |= comparing or not methods.isdisjoint(_COMPARING)
    if len(classes) > _MOST_CLASSES:
        raise Refusal(1, f"more than {_MOST_CLASSES} classes", "write fewer")
    bases = {one: tuple(map(last_name, node.bases)) for one, node in classes.items()}
    above = _above(classes, bases)
    errors = {one for one, over in above.items() if over.intersection(_ERRORS) - classes.keys()}
    return ClassFacts(
        classes=classes,
        bases=bases,
        above=above,
        errors=frozenset(errors),
        twice=frozenset(twice),
        stored=frozenset(stored),
        inherited=frozenset().union(*above.values()) & classes.keys(),
        properties=frozenset(properties),
        methods=frozenset(methods),
        ordered=ordered,
        fields=fields,
        containers=containers or mappings,
        mappings=mappings,
        comparing=comparing,
        readers=readers,
        encoders=encoders,
    )


def _above(classes: dict[str, ast.ClassDef], bases: dict[str, tuple[str, ...]]) -> dict[str, frozenset[str]]:
    """Return the names of all bases of each class. A base stands before its heirs, so that one pass is enough."""
    above: dict[str, frozenset[str]] = {}
    for one in sorted(classes, key=lambda one: classes[one].lineno):
        above[one] = frozenset(bases[one]).union(*(above.get(base, ()) for base in bases[one]))
    return above


class Bases:
    """The bases of a class: `names` are those to inherit from while the program runs.

    `mixed` has the type of the values of each enumeration before it, and gets its own.

    Raises:
        Refusal: it inherits from another kind of class.
    """

    def __init__(self, facts: ClassFacts, node: ast.ClassDef, mixed: dict[str, str | None]) -> None:
        self.names: list[str] = []
        self.error: str | None = None
        self.enumeration = self.typed_dict = self.named_tuple = False
        self.mixed: str | None = None
        said = [last_name(base) for base in node.bases]
        for keyword in node.keywords:
            if keyword.arg not in ("total", "metaclass") or (
                keyword.arg == "metaclass" and last_name(keyword.value) not in ("ABCMeta", "EnumMeta", "EnumType")
            ):
                raise Refusal(node.lineno, f"a class with `{keyword.arg}`", "call a function after the class")
        self.enumeration = any(one in _ENUMERATIONS for one in said)
        for base in said:
            if base in facts.classes:
                if base in facts.twice:
                    raise Refusal(node.lineno, f"a base `{base}` that two classes are called", "name them apart")
                self.typed_dict |= "TypedDict" in facts.bases[base]
                if any(one in _ENUMERATIONS for one in facts.bases[base]):
                    self.enumeration, self.mixed = True, mixed.get(base)
                self.names.append(base)
            elif base in _ENUMERATIONS:
                self.mixed = _ENUMERATIONS[base] or self.mixed
                self.names += ["_x_Shown"] if _ENUMERATIONS[base] else []
            elif base in _MIXED and self.enumeration:
                self.mixed = base
            elif base in _CONTAINERS:
                self.names.append(_CONTAINERS[base])
            elif base == _READER:
                self.names.append("_x_HTMLParser")
            elif base == _ENCODER:
                self.names.append("_x_Encoder")
            elif base == "TypedDict":
                self.typed_dict = True
            elif base == "NamedTuple":
                self.named_tuple = True
            elif base in _ERRORS:
                self.error = self.error or base
            elif base not in _NO_BASE:
                what = f"a class `{node.name}` that inherits from `{base or 'an expression'}`"
                raise Refusal(node.lineno, what, f"keep a {base or 'value'} in an attribute of a plain class")
        if self.enumeration:
            mixed[node.name] = self.mixed
            self.names.append("_x_Mixed" if self.mixed else "_x_Member")
