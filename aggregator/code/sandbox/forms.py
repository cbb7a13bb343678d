"""The forms of Python that the interpreter lacks, written in others: classes that inherit, generators.

A program that has none of them is left as it is, letter by letter. Of one that has, the new text has other lines:
`Lines` finds the author's.
"""

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from aggregator.code.sandbox.class_facts import (
    COMPARING_ADDED,
    MAPPINGS_ADDED,
    ClassFacts,
    facts_of,
    with_methods_of_bases,
)
from aggregator.code.sandbox.classes import ClassForms
from aggregator.code.sandbox.classes_source import CLASSES
from aggregator.code.sandbox.containers_source import ATTRIBUTES, CONTAINERS, ENCODER, MAPPINGS
from aggregator.code.sandbox.errors import ERRORS, LACKING_ERRORS, ErrorForms, with_missing_errors
from aggregator.code.sandbox.function_attributes import FUNCTION_ATTRIBUTES, FunctionAttributeForms
from aggregator.code.sandbox.generators import GeneratorForms, stops_of
from aggregator.code.sandbox.generators_source import GENERATORS
from aggregator.code.sandbox.html_source import HTML_PARSER
from aggregator.code.sandbox.inits import INITS, LACKING_INITS, InitForms
from aggregator.code.sandbox.instances_source import ORDER, PROTOCOLS
from aggregator.code.sandbox.left_loops import LeftLoopForms
from aggregator.code.sandbox.methods import LACKING_METHODS, MethodForms, attributes_of
from aggregator.code.sandbox.methods_source import METHODS, SUB
from aggregator.code.sandbox.more_sources import RE
from aggregator.code.sandbox.parts import ASKS_PARTS, PARTS, PartForms
from aggregator.code.sandbox.refusal import Refusal
from aggregator.code.sandbox.sets import LACKING_SETS, SETS, SetForms
from aggregator.code.sandbox.syntax import last_name, lines_of, names_any
from aggregator.code.sandbox.tasks import LACKING_TASKS, TASKS, TaskForms, makes_tasks
from aggregator.code.sandbox.times_source import TIMES
from aggregator.code.sandbox.zones import ZoneForms, has_zones

# Characters of the new text: so many, and so many times those of the program.
_MOST_NEW: Final = 160 * 1024
_MOST_TIMES: Final = 8
_LACKING: Final = re.compile(
    r"(?m:^[ \t]+class\b)|(?m:^[ \t]*(?!self\b)\w+\.\w+[ \t]*=[^=])|\byield\b|\b(?:zoneinfo|pytz)\b"
    r"|\bclass\s+\w+\s*\(\s*[^\s)]|\bsuper\s*\(|\bSimpleNamespace\b|\border[ \t]*=|\bcmp_to_key\b"
    r"|\bnext\s*\(|\bdef\s+__(?!init__|repr__|str__|eq__|hash__|enter__|exit__)\w+__"
    r"|\bfield[ \t]*\([^)]{0,200}?\b(?:repr|compare|hash|init)[ \t]*=|\basync[ \t]+with\b"
    r"|@[ \t]*(?:\w+\.)*(?:property|staticmethod|classmethod|cached_property)\b|\bissubclass\b|"
    rf"\b(?:{'|'.join(sorted(COMPARING_ADDED | MAPPINGS_ADDED))})\b|"
    + "|".join((LACKING_ERRORS, LACKING_INITS, LACKING_TASKS, LACKING_METHODS, LACKING_SETS))
)
# Expressions stand in it too.
_FORMATTED: Final = re.compile(r"(?<!\w)(?:[fF][rR]?|[rR][fF])[\"']")
_YIELD: Final = re.compile(r"\byield\b")
_DEFINED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Lines(NamedTuple):
    """The lines of a program as its author wrote it; `new` and `old` are numbers of lines that belong together."""

    text: tuple[str, ...]
    new: tuple[int, ...]
    old: tuple[int, ...]

    @classmethod
    def same(cls, text: Sequence[str]) -> "Lines":
        """Return the lines of a program that keep their numbers."""
        numbers = tuple(range(1, len(text) + 1))
        return cls(tuple(text), numbers, numbers)

    def of(self, line: int) -> tuple[int, str]:
        """Return the author's line for a line of the new text: its number and its text."""
        at = bisect_right(self.new, line) - 1
        number = self.old[at] if at >= 0 else 1
        return number, self.text[number - 1] if number <= len(self.text) else ""


class Formed(NamedTuple):
    """A program in the forms that the interpreter has, its part of the prelude, and its author's lines.

    `lines` is None if the program is as its author wrote it.
    """

    code: str
    prelude: str
    lines: Lines | None


def formed(code: str, masked: str) -> Formed:
    """Return a program in the forms that the interpreter has. `masked` has blanks for its texts and comments.

    Raises:
        Refusal: it has a form that cannot be written in others.
    """
    if not _may_lack(code, masked):
        return Formed(code, "", None)
    try:
        tree = ast.parse(code)
        new, prelude, lines = _written(code, tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, RecursionError) and _YIELD.search(masked):
            raise Refusal(1, "so many `yield`, or values nested so deeply", "write fewer of them") from None
        # The interpreter names its fault.
        return Formed(code, "", None)
    return Formed(new, prelude, lines) if prelude else Formed(code, "", None)


def _may_lack(code: str, masked: str) -> bool:
    """Return whether a program may have forms to rewrite; a text may be an f-string."""
    if _LACKING.search(masked) is not None or ASKS_PARTS.search(code) is not None:
        return True
    return _FORMATTED.search(code) is not None and _LACKING.search(code) is not None


def _written(code: str, tree: ast.Module) -> tuple[str, str, Lines]:
    """Return the new text, its part of the prelude, and its lines. With an empty prelude, nothing is new.

    Raises:
        Refusal: a form cannot be written in others.
    """
    tree = with_methods_of_bases(tree)
    own = frozenset(node.name for node in ast.walk(tree) if isinstance(node, _DEFINED))
    tree = with_missing_errors(tree, own)
    inits = InitForms()
    tree = inits.visit(tree)
    functions = FunctionAttributeForms(tree)
    if functions.changed:
        tree = functions.visit(tree)
    facts = facts_of(tree)
    lazy, stops = _is_lazy(tree, facts), stops_of(tree)
    managers = "__aenter__" in own or names_any(tree, "Lock", "TaskGroup", "asynccontextmanager")
    asked = PartForms()
    tree = asked.visit(tree)
    errors = ErrorForms(tree, own)
    tree = errors.visit(tree)
    tasks = makes_tasks(tree, own)
    if tasks:
        tree = TaskForms(own).visit(tree)
    zones = has_zones(tree)
    if zones:
        tree = ZoneForms().visit(tree)
    sets = SetForms(own)
    attributes = attributes_of(tree)
    methods = MethodForms(own, managers, attributes)
    tree = methods.visit(sets.visit(tree))
    # What zones need comes with their module.
    prelude = (PARTS if asked.changed else "") + (ERRORS if errors.changed else "")
    prelude += (INITS if inits.changed else "") + (FUNCTION_ATTRIBUTES if functions.changed else "")
    prelude += (SETS if sets.changed else "") + (TASKS if tasks else "") + ("\n" if zones else "")
    if methods.changed:
        prelude += METHODS + (TIMES if methods.times else "") + (f"{RE}{SUB}" if methods.subs else "")
    if names_any(tree, "SimpleNamespace"):
        prelude += f"_x_attribute_names = {attributes!r}\n"
    if lazy or facts.classes or facts.ordered or facts.containers or _asks_kinds(tree):
        tree = ClassForms(facts).visit(tree)
        prelude += CLASSES + (ORDER if facts.ordered else "") + (PROTOCOLS if facts.protocols else "")
        prelude += (CONTAINERS if facts.containers else "") + (MAPPINGS if facts.mappings else "")
        prelude += ATTRIBUTES if "__getattr__" in facts.methods else ""
        prelude += (HTML_PARSER if facts.readers else "") + (ENCODER if facts.encoders else "")
    if lazy:
        tree = GeneratorForms(own, stops).visit(LeftLoopForms(tree).visit(tree))
        prelude += GENERATORS
    new = ast.unparse(ast.fix_missing_locations(tree))
    if len(new) > max(_MOST_NEW, _MOST_TIMES * len(code)):
        raise Refusal(1, "so many classes and generators", "write fewer")
    return new, prelude, _lines(code, tree, new)


def _is_lazy(tree: ast.Module, facts: ClassFacts) -> bool:
    """Return whether a program has values that are made when they are wanted."""
    if not facts.methods.isdisjoint(("__iter__", "__next__", "__aiter__", "__anext__")):
        return True
    return any(
        isinstance(node, ast.Yield | ast.YieldFrom)
        or (isinstance(node, ast.Call) and last_name(node.func) == "next" and _is_generator(node.args))
        for node in ast.walk(tree)
    )


def _asks_kinds(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "issubclass" for node in ast.walk(tree))


def _is_generator(given: list[ast.expr]) -> bool:
    return bool(given) and isinstance(given[0], ast.GeneratorExp)


def _lines(code: str, tree: ast.Module, new: str) -> Lines:
    """Return which lines belong together. `tree` has the author's lines, and is what `new` was written from."""
    pairs: dict[int, int] = {}
    for one, other in zip(_statements(tree), _statements(ast.parse(new)), strict=True):
        pairs.setdefault(other.lineno, one.lineno)
    numbers = sorted(pairs)
    return Lines(tuple(lines_of(code)), tuple(numbers), tuple(pairs[number] for number in numbers))


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.stmt))
