"""Holds names to docs/glossary.md, by reading the source: nothing is imported.

The last column of the glossary's tables has the words to avoid; its first lines say how a word is marked.
`python tests/test_glossary.py [PATH ...]` lists every name that has one, with the term to use.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
GLOSSARY: Final = ROOT / "docs" / "glossary.md"
PACKAGE: Final = "aggregator"

_ROW: Final = re.compile(
    r"^\| (?P<term>[^|]+?) +\| (?P<meaning>[^|]+?) +\| (?P<where>[^|]+?) +\| (?P<avoid>[^|]*?) *\|$"
)
_MARK: Final = re.compile(r"`(?P<whole>=?)(?P<word>[a-z_]+)(?P<function>\(\))?`")
_PATH: Final = re.compile(r"`([a-z0-9_./]+(?:\.py|/))`")
# The pieces of a name: `HTTPDoor` has `HTTP` and `Door`.
_PIECE: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@dataclass(frozen=True)
class Avoided:
    """The words to avoid, each with the term to use: as `parts` of names, as `whole` names, as names of `functions`."""

    parts: dict[str, str]
    whole: dict[str, str]
    functions: dict[str, str]


@dataclass(frozen=True, order=True)
class Name:
    """A name that is given in a file.

    `kind` is `module`, `class`, `column`, `label`, `function`, `attribute`, `parameter` or `test helper`.
    """

    path: str
    line: int
    kind: str
    name: str


def rows() -> list[dict[str, str]]:
    """Return the rows of the glossary's tables, by column."""
    found = (_ROW.match(line) for line in GLOSSARY.read_text(encoding="utf-8").splitlines())
    return [row.groupdict() for row in found if row and not {row["term"], row["term"].strip("- ")} & {"term", ""}]


def avoided() -> Avoided:
    """Return the words that the glossary marks."""
    marked = Avoided({}, {}, {})
    for row in rows():
        for mark in _MARK.finditer(row["avoid"]):
            kind = marked.functions if mark["function"] else marked.whole if mark["whole"] else marked.parts
            kind[mark["word"]] = " or ".join(filter(None, (kind.get(mark["word"]), row["term"])))
    return marked


@cache
def pieces(name: str) -> frozenset[str]:
    """Return the words that a name is made of, in lower case, plurals as singulars too."""
    words = [piece.lower() for piece in _PIECE.findall(name)]
    singular = [re.sub(r"(?<=[aeiou]l)ves$", "f", word) for word in words]
    return frozenset([*words, *singular, *(word.removesuffix("s") for word in words)])


def term_for(name: Name, words: Avoided) -> str:
    """Return the term to use in place of a name that is to be avoided, empty where the name is good."""
    bare = name.name.strip("_")
    if name.kind == "function":
        return next((t for w, t in words.functions.items() if bare == w or bare.startswith(f"{w}_")), "")
    whole = words.whole.get("_".join(piece.lower() for piece in _PIECE.findall(bare)), "")
    if whole and name.kind in ("module", "class"):
        return whole
    return next((words.parts[piece] for piece in sorted(pieces(bare)) if piece in words.parts), "")


def _is_fixture(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = (ast.unparse(decorator).partition("(")[0] for decorator in node.decorator_list)
    return any(decorator.endswith("fixture") for decorator in decorators)


def _members(path: str, nodes: Iterable[ast.AST]) -> Iterator[Name]:
    """Yield the attributes and parameters that the package names; keys of the configuration are not its to choose."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield Name(path, node.lineno, "attribute", node.attr)
        elif isinstance(node, ast.arg):
            yield Name(path, node.lineno, "parameter", node.arg)
        elif isinstance(node, ast.ClassDef) and not path.startswith(f"{PACKAGE}/config/"):
            fields = (one for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name))
            yield from (Name(path, one.lineno, "attribute", ast.unparse(one.target)) for one in fields)


def _in_tree(path: str, tree: ast.Module, nodes: Iterable[ast.AST]) -> Iterator[Name]:
    in_package = path.startswith(f"{PACKAGE}/")
    a_helper = path.startswith("tests/") and not Path(path).name.startswith("test_")
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            yield Name(path, node.lineno, "class", node.name)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if in_package:
                yield Name(path, node.lineno, "function", node.name)
            elif _is_fixture(node) or (a_helper and node in tree.body):
                yield Name(path, node.lineno, "test helper", node.name)
        elif in_package and isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.id if isinstance(node.func, ast.Name) else ""
            if called in ("Column", "_by") and isinstance(node.args[0].value, str):
                yield Name(path, node.lineno, "column" if called == "Column" else "label", node.args[0].value)
        elif isinstance(node, ast.Dict) and path.startswith((f"{PACKAGE}/telemetry/", f"{PACKAGE}/audit/")):
            keys = (key for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str))
            yield from (Name(path, key.lineno, "label", str(key.value)) for key in keys)


def names(path: Path, root: Path = ROOT) -> Iterator[Name]:
    """Yield the names that a file gives: its own, its folder's, and those of what is in it."""
    shown = path.relative_to(root).as_posix()
    if path.name == "__init__.py":
        yield Name(shown, 1, "module", path.parent.name)
    elif not path.name.startswith("test_"):
        yield Name(shown, 1, "module", path.stem)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    yield from _in_tree(shown, tree, nodes)
    if shown.startswith(f"{PACKAGE}/"):
        yield from _members(shown, nodes)


def files(root: Path = ROOT) -> list[Path]:
    """Return every Python file of the package, its tests and its benchmarks."""
    return sorted(path for part in (PACKAGE, "tests", "benchmarks") for path in (root / part).rglob("*.py"))


def bad_names(paths: Iterable[Path]) -> list[str]:
    """Return a line for each name with a word that the glossary avoids."""
    words = avoided()
    found = ((name, term) for path in paths for name in names(path) if (term := term_for(name, words)))
    return [f"{n.path}:{n.line}: {n.kind} {n.name!r}: the word is {term!r}" for n, term in sorted(found)]


def test_no_name_has_a_word_that_the_glossary_avoids() -> None:
    found = bad_names(files())
    assert not found, "\n".join(found[:40]) + "\npython tests/test_glossary.py lists them all"


def test_every_term_is_where_the_glossary_says() -> None:
    gone = [
        f"{row['term']}: {path}"
        for row in rows()
        for path in _PATH.findall(row["where"])
        if not (ROOT / PACKAGE / path).exists()
    ]
    assert not gone


def test_no_term_is_avoided_in_favour_of_another() -> None:
    terms = {term for row in rows() for term in row["term"].split(", ")}
    words = avoided()
    assert not terms & set(words.parts)
    assert len(terms) >= 60


@pytest.mark.parametrize(
    ("name", "kind", "refused"),
    [
        ("HttpDoor", "class", True),
        ("door_config", "module", True),
        ("Doors", "class", True),
        ("Outdoor", "class", False),
        ("Shelves", "class", True),
        ("Question", "class", True),
        ("questions", "module", False),
        ("PolicyQuestion", "class", False),
        ("hear", "function", True),
        ("_hear_lists", "function", True),
        ("hearing", "function", False),
        ("Gateway", "class", False),
        ("door", "function", False),
        ("_shelf", "attribute", True),
        ("behind", "parameter", True),
        ("question", "parameter", False),
    ],
)
def test_the_rule_itself(name: str, kind: str, refused: bool) -> None:
    assert bool(term_for(Name("x.py", 1, kind, name), avoided())) == refused


if __name__ == "__main__":
    below = [Path(argument).resolve() for argument in sys.argv[1:]]
    listed = bad_names(path for path in files() if not below or any(path.is_relative_to(folder) for folder in below))
    print("\n".join([*listed, f"{len(listed)} names"]))
    sys.exit(min(len(listed), 1))
