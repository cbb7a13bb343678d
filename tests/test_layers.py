"""Holds every module to the plan in `aggregator.LAYERS`, by reading its imports: nothing is run but the last test.

Rule 1: a module imports its own package and layers below; never a neighbour in the same layer, never upwards. Inside
packages that have subpackages `aggregator.INNER_LAYERS` says the same.
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

from aggregator import INNER_LAYERS, LAYERS

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = "aggregator"
LINES_AT_MOST: Final = 405

# Folders that are no layer: upstream servers of their own.
STRANGERS: Final = frozenset({"examples"})
# The package itself (its version and its plan) belongs to everyone; `python -m` stands above all layers.
EVERYONES: Final = PACKAGE
ENTRANCE: Final = f"{PACKAGE}.__main__"

# The imports inside functions, and what each is good for.
INSIDE_FUNCTIONS: Final = {
    (f"{PACKAGE}.cli.__init__", f"{PACKAGE}.cli.commands"): "importing the package must not load the command line",
    (f"{PACKAGE}.cli.runtime.setup", "uvloop"): "an optional dependency",
    (f"{PACKAGE}.catalog.search.semantic", "numpy"): "an optional dependency",
    (f"{PACKAGE}.catalog.search.semantic", "safetensors.numpy"): "an optional dependency",
    (f"{PACKAGE}.catalog.search.semantic", "tokenizers"): "an optional dependency",
    (f"{PACKAGE}.config.files.report", "difflib"): "only when something is wrong: every start would pay for it",
}
# What `--help` and the stdio handshake must not wait for.
HEAVY: Final = ("mcp", "uvicorn", "starlette", "aiohttp")

_NAMED_IN_STRING: Final = re.compile(rf"({PACKAGE}(?:\.\w+)+):\w+")


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
    files = sorted((ROOT / PACKAGE).rglob("*.py"))
    names = {".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in files}
    return {name: Module(name, path) for name, path in names.items()}


MODULES: Final = _modules()
BUILDING: Final = [m for m in MODULES.values() if m.name != f"{PACKAGE}.__init__" and m.part not in STRANGERS]
LAYER_OF: Final = {part: at for at, layer in enumerate(LAYERS) for part in layer}


def _full(name: str) -> str:
    """The module an imported name lies in: `package.module.attribute` -> `package.module`."""
    if not name.startswith(f"{PACKAGE}."):
        return name
    while name != PACKAGE:
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
            targets = {_full(f"{base}.{alias.name}") for alias in node.names} if base.startswith(PACKAGE) else {base}
            yield from (Import(target, node.lineno, inside) for target in sorted(targets))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = _NAMED_IN_STRING.fullmatch(node.value)
            if named:
                yield Import(_full(named[1]), node.lineno, inside, by_string=True)
        deeper = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        stack.extend((child, deeper) for child in ast.iter_child_nodes(node))


def _ours(module: Module) -> Iterator[Import]:
    yield from (i for i in imports(module) if i.target == PACKAGE or i.target.startswith(f"{PACKAGE}."))


@pytest.mark.parametrize("module", BUILDING, ids=lambda module: module.name)
def test_imports_go_down_only(module: Module) -> None:
    own_layer = -1 if module.name == ENTRANCE else LAYER_OF[module.part]
    for found in _ours(module):
        if found.target == EVERYONES:
            continue
        part = found.target.split(".")[1]
        if part == module.part and module.name != ENTRANCE:
            continue
        place = f"{module.path}:{found.line}"
        assert part in LAYER_OF, f"{place}: {found.target} is in no layer"
        assert LAYER_OF[part] > own_layer, f"{place}: {module.part} must not know {found.target}"


def _inner(package: str, name: str) -> str | None:
    """The entry of `package` that a module lies in: a subpackage or a module; None for the package's own file."""
    rest = name.removeprefix(f"{PACKAGE}.{package}.").split(".")[0]
    return None if rest == "__init__" else rest


@pytest.mark.parametrize("package", INNER_LAYERS)
def test_imports_between_subpackages_go_down_only(package: str) -> None:
    row_of = {entry: at for at, row in enumerate(INNER_LAYERS[package]) for entry in row}
    inside = [m for m in BUILDING if m.name.startswith(f"{PACKAGE}.{package}.")]
    subpackages = {m.name.split(".")[len(package.split(".")) + 1] for m in inside if m.name.endswith(".__init__")}
    subpackages.discard("__init__")
    entries = {_inner(package, m.name) for m in inside} - {None}
    assert set(row_of) - {"."} <= entries, f"{package}: the plan names what is not there"
    assert subpackages <= set(row_of), f"{package}: in no row: {subpackages - set(row_of)}"
    for module in inside:
        own = _inner(package, module.name)
        for found in _ours(module):
            if own is None or not found.target.startswith(f"{PACKAGE}.{package}."):
                continue
            other = _inner(package, found.target)
            if other is None or other == own:
                continue
            unnamed = own not in row_of and other not in row_of
            above, below = row_of.get(own, row_of.get(".")), row_of.get(other, row_of.get("."))
            place = f"{module.path}:{found.line}"
            assert above is not None, f"{place}: {own} is in no row of {package}"
            assert below is not None, f"{place}: {other} is in no row of {package}"
            known = above < below or (above == below and (unnamed or not {own, other} & subpackages))
            assert known, f"{place}: {own} must not know {found.target}"


def test_every_module_is_in_one_layer() -> None:
    assert len(LAYER_OF) == sum(map(len, LAYERS)), "a package stands in two layers"
    parts = {module.part for module in BUILDING if module.name != ENTRANCE}
    assert parts <= set(LAYER_OF), f"in no layer: {parts - set(LAYER_OF)}"


def test_what_strings_name_is_there() -> None:
    for module in BUILDING:
        texts = (node.value for node in ast.walk(module.tree) if isinstance(node, ast.Constant))
        for named in (_NAMED_IN_STRING.fullmatch(text) for text in texts if isinstance(text, str)):
            assert named is None or {named[1], f"{named[1]}.__init__"} & set(MODULES), f"{module.path}: {named[0]}"


def test_the_package_itself_imports_nothing() -> None:
    assert not list(imports(MODULES[f"{PACKAGE}.__init__"]))


@pytest.mark.parametrize("module", MODULES.values(), ids=lambda module: module.name)
def test_examples_and_the_package_are_strangers(module: Module) -> None:
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
    # What a string names is loaded later, so it closes no circle; the layers hold for it all the same.
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


@pytest.mark.parametrize("name", [f"{PACKAGE}.cli.commands", f"{PACKAGE}.cli.stdio"])
def test_help_and_the_stdio_handshake_load_nothing_heavy(name: str) -> None:
    check = f"import sys, {name}; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", check], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
