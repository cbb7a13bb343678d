"""Holds every module to the plan in `aggregator.FLOORS`, by reading its imports: nothing is run but the last test.

Rule 1: a module imports its own folder and floors below; never a neighbour on the same floor, never upwards.
Rule 2: modules named in strings (`package.module:name`, loaded when needed) are imports like any other.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from aggregator import FLOORS

ROOT: Final = Path(__file__).resolve().parents[1]
HOUSE: Final = "aggregator"
LINES_AT_MOST: Final = 400

# Folders that are no floor: upstream servers of their own.
STRANGERS: Final = frozenset({"examples"})
# The package itself (its version and its plan) belongs to everyone; `python -m` stands above all floors.
EVERYONES: Final = HOUSE
ENTRANCE: Final = f"{HOUSE}.__main__"

# The imports inside functions, and what each is good for.
INSIDE_FUNCTIONS: Final = {
    (f"{HOUSE}.cli.__init__", f"{HOUSE}.cli.commands"): "importing the package must not load the command line",
    (f"{HOUSE}.cli.setup", "uvloop"): "an optional dependency",
    (f"{HOUSE}.catalog.semantic", "numpy"): "an optional dependency",
    (f"{HOUSE}.catalog.semantic", "safetensors.numpy"): "an optional dependency",
    (f"{HOUSE}.catalog.semantic", "tokenizers"): "an optional dependency",
    (f"{HOUSE}.config.report", "difflib"): "only when something is wrong: every start would pay for it",
}
# What `--help` and the stdio handshake must not wait for.
HEAVY: Final = ("mcp", "uvicorn", "starlette", "aiohttp")

_NAMED_IN_STRING: Final = re.compile(rf"({HOUSE}(?:\.\w+)+):\w+")


@dataclass(frozen=True)
class Import:
    """One import statement's target, by full module name where it is one of ours."""

    target: str
    line: int
    in_function: bool
    by_string: bool = False


@dataclass(frozen=True)
class Module:
    """A file of the package; `name` ends in `__init__` for a package's own file."""

    name: str
    path: Path

    @property
    def part(self) -> str:
        """The folder or top-level file it belongs to."""
        return self.name.split(".")[1]

    @property
    def tree(self) -> ast.Module:
        return _parsed(self.path)


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def _modules() -> dict[str, Module]:
    files = sorted((ROOT / HOUSE).rglob("*.py"))
    names = {".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in files}
    return {name: Module(name, path) for name, path in names.items()}


MODULES: Final = _modules()
BUILDING: Final = [m for m in MODULES.values() if m.name != f"{HOUSE}.__init__" and m.part not in STRANGERS]
FLOOR_OF: Final = {part: at for at, floor in enumerate(FLOORS) for part in floor}


def _full(name: str) -> str:
    """The module an imported name lies in: `package.module.attribute` -> `package.module`."""
    if not name.startswith(f"{HOUSE}."):
        return name
    while name != HOUSE:
        if name in MODULES:
            return name
        if f"{name}.__init__" in MODULES:
            return f"{name}.__init__"
        name = name.rpartition(".")[0]
    return EVERYONES


def imports(module: Module) -> Iterator[Import]:
    """Every import of a module, the ones in strings included."""
    stack: list[tuple[ast.AST, bool]] = [(module.tree, False)]
    while stack:
        node, inside = stack.pop()
        if isinstance(node, ast.Import):
            yield from (Import(_full(alias.name), node.lineno, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.path}:{node.lineno}: imports are absolute here"
            base = node.module or ""
            targets = {_full(f"{base}.{alias.name}") for alias in node.names} if base.startswith(HOUSE) else {base}
            yield from (Import(target, node.lineno, inside) for target in sorted(targets))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = _NAMED_IN_STRING.fullmatch(node.value)
            if named:
                yield Import(_full(named[1]), node.lineno, inside, by_string=True)
        deeper = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        stack.extend((child, deeper) for child in ast.iter_child_nodes(node))


def _ours(module: Module) -> Iterator[Import]:
    yield from (i for i in imports(module) if i.target == HOUSE or i.target.startswith(f"{HOUSE}."))


@pytest.mark.parametrize("module", BUILDING, ids=lambda module: module.name)
def test_imports_go_down_only(module: Module) -> None:
    own_floor = -1 if module.name == ENTRANCE else FLOOR_OF[module.part]
    for found in _ours(module):
        if found.target == EVERYONES:
            continue
        part = found.target.split(".")[1]
        if part == module.part and module.name != ENTRANCE:
            continue
        place = f"{module.path}:{found.line}"
        assert part in FLOOR_OF, f"{place}: {found.target} is on no floor"
        assert FLOOR_OF[part] > own_floor, f"{place}: {module.part} must not know {found.target}"


def test_every_module_is_on_one_floor() -> None:
    assert len(FLOOR_OF) == sum(map(len, FLOORS)), "a folder stands on two floors"
    parts = {module.part for module in BUILDING if module.name != ENTRANCE}
    assert parts <= set(FLOOR_OF), f"on no floor: {parts - set(FLOOR_OF)}"


def test_what_strings_name_is_there() -> None:
    for module in BUILDING:
        texts = (node.value for node in ast.walk(module.tree) if isinstance(node, ast.Constant))
        for named in (_NAMED_IN_STRING.fullmatch(text) for text in texts if isinstance(text, str)):
            assert named is None or {named[1], f"{named[1]}.__init__"} & set(MODULES), f"{module.path}: {named[0]}"


def test_the_package_itself_imports_nothing() -> None:
    assert not list(imports(MODULES[f"{HOUSE}.__init__"]))


@pytest.mark.parametrize("module", MODULES.values(), ids=lambda module: module.name)
def test_examples_and_the_house_are_strangers(module: Module) -> None:
    an_example = module.name.split(".")[1] in STRANGERS
    for found in _ours(module):
        if found.target == EVERYONES:
            assert not an_example, f"{module.path}:{found.line}"
            continue
        assert (found.target.split(".")[1] in STRANGERS) == an_example, f"{module.path}:{found.line}"


def test_imports_inside_functions_are_the_few_with_a_reason() -> None:
    found = {(m.name, i.target) for m in BUILDING for i in imports(m) if i.in_function and not i.by_string}
    assert found == set(INSIDE_FUNCTIONS)


def test_no_module_imports_itself_round_a_circle() -> None:
    # What a string names is loaded later, so it closes no circle; the floors hold for it all the same.
    edges = {module.name: {i.target for i in _ours(module) if not i.by_string} for module in MODULES.values()}
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " -> ".join((*way, name))
        if name not in done:
            for target in sorted(edges.get(name, ())):
                visit(target, (*way, name))
            done.add(name)

    for name in edges:
        visit(name, ())


@pytest.mark.parametrize("module", MODULES.values(), ids=lambda module: module.name)
def test_a_module_has_one_idea(module: Module) -> None:
    lines = len(module.path.read_text(encoding="utf-8").splitlines())
    assert lines <= LINES_AT_MOST, f"{module.path} has {lines} lines: it is likely two ideas"
    assert ast.get_docstring(module.tree), f"{module.path} does not say what it is for"


@pytest.mark.parametrize("name", [f"{HOUSE}.cli.commands", f"{HOUSE}.cli.stdio"])
def test_help_and_the_stdio_handshake_load_nothing_heavy(name: str) -> None:
    check = f"import sys, {name}; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", check], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
