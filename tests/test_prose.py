"""Holds docstrings and comments to the rules of CONTRIBUTING.md, by reading the source: nothing is imported.

`python tests/test_prose.py [PATH ...]` lists every breach as `file:line: problem: text`, of all files or of those below
the paths; with `--count`, only how many there are in each folder.
"""

import ast
import builtins
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# What has a docstring.
DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = "aggregator"

# Words that a docstring must not begin with. Pronouns and conjunctions need a neighbour to be understood; prepositions
# and question words begin a description that has no subject.
_OPENINGS: Final = """
    it its it's they them their theirs he she his we us you your this that these those such same here there then
    what who whom whose whether how where when which why whoever whatever
    as so since because if unless until once while after before although though and but or nor
    of in from with without for by at on to into about between unlike per
    is are was were has had does did can may must might will would should could
    no not never nothing something anything everything nobody somebody anybody everybody neither either also
"""
OPENINGS: Final = frozenset(_OPENINGS.split())
# Openings of more than one word.
PHRASES: Final = ("the same", "one of those", "one of these", "one that", "one who", "all that", "all there is")
# Verbs in the third person that are seldom plural nouns; the imperative is asked for.
_THIRD_PERSON: Final = """
    accepts adds allows appends applies asks begins belongs brings builds carries chooses cleans clears closes collects
    compares compiles completes computes connects contains converts creates decides decodes defines deletes delivers
    describes differs does drops emits encodes ensures enters expects feeds fetches fills finds finishes follows forgets
    forwards gets gives goes grows handles happens has hears helps hides imports includes joins keeps knows leaves lets
    loads looks loses makes merges needs observes occurs opens owns parses passes prepares prevents prints produces
    proves provides puts raises reads receives refuses registers releases remembers removes renders replaces resolves
    restores returns runs says seals searches sees seems selects sends sets shows skips splits spreads stands starts
    stays stops stores strips takes talks tells translates tries truncates undoes updates uses validates verifies waits
    wants warns wraps writes yields
"""
THIRD_PERSON: Final = frozenset(_THIRD_PERSON.split())
# Words that leave open who or what is meant.
VAGUE: Final = re.compile(
    r"\b(?:nobody|somebody|whoever|whomever|whatever|everybody|anybody|for ever)\b", re.IGNORECASE
)
# Metaphors that this code once used for its own parts.
METAPHORS: Final = re.compile(
    r"\b(?:doors?|floors?|houses?|shelf|shelves|seats?|desks?|errands?|wardens?|strays?|knocks?|journeys?|ways? in|"
    r"way back|hang(?:s|ing)? up)\b",
    re.IGNORECASE,
)
# The `__init__` of a package is its page: what it is for, its terms, where to begin, and what it must not import.
PAGE_LINES: Final = range(10, 21)
PAGE_PARTS: Final = {
    "no line `Terms:`": re.compile(r"^Terms\b.*:$", re.MULTILINE),
    "no line `Entry point: ...`": re.compile(r"^Entry points?: ", re.MULTILINE),
    "no line `Must not import: ...` that names the test": re.compile(
        r"^Must not import: (?:.+\n)*?.*tests/test_\w+\.py", re.MULTILINE
    ),
}
TERMS: Final = range(3, 7)
# Folders of files that other programs read, and programs of their own: they have no page.
NO_PAGE: Final = (f"{PACKAGE}/examples", f"{PACKAGE}/storage/migrations")

_WORD: Final = re.compile(r"[A-Za-z][A-Za-z']*(?!-?\w)")
_NAME_ALONE: Final = re.compile(r"`(?!None`|True`|False`)[a-z_][A-Za-z0-9_]*`")


@dataclass(frozen=True, order=True)
class Breach:
    """One place that breaks a rule. `problem` says which."""

    path: str
    line: int
    problem: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.problem}: {self.text}"


def opening_problem(doc: str) -> str:
    """Say what is wrong with how a docstring begins; empty for nothing."""
    text = doc.strip()
    if not text:
        return "empty docstring"
    if _NAME_ALONE.match(text):
        return "begins with an attribute or parameter, not with a verb or the thing"
    for phrase in PHRASES:
        if re.match(rf"{phrase}\b", text, re.IGNORECASE):
            return f"begins with {phrase!r}"
    if text[0].islower():
        return "does not begin with a capital"
    first = _WORD.match(text)
    if first is None:
        return ""
    word = first[0].lower()
    if word in OPENINGS:
        return f"begins with {first[0]!r}"
    if word in THIRD_PERSON:
        return f"begins with {first[0]!r}: use the imperative"
    return ""


def page_problems(doc: str) -> Iterator[str]:
    """Yield what is missing in the docstring of a package."""
    lines = doc.strip().splitlines()
    if len(lines) not in PAGE_LINES:
        yield f"{len(lines)} lines, not {PAGE_LINES[0]} to {PAGE_LINES[-1]}, in the docstring of a package"
    for problem, pattern in PAGE_PARTS.items():
        if not pattern.search(doc):
            yield problem
    terms = re.search(r"^Terms\b.*:\n((?:[ \t]+.+\n?)*)", doc, re.MULTILINE)
    if terms:
        count = len(re.findall(r"^ {2,4}\S[^:]*: ", terms[1], re.MULTILINE))
        if count not in TERMS:
            yield f"{count} terms of the form `  term: meaning` below `Terms:`, not {TERMS[0]} to {TERMS[-1]}"


def docstrings(tree: ast.Module) -> Iterator[tuple[ast.AST, str, int]]:
    """Yield every docstring of a module, those of nested functions too, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            doc = ast.get_docstring(node)
            if doc is not None:
                yield node, doc, node.body[0].lineno


def comments(source: str) -> Iterator[tuple[str, int]]:
    """Yield every comment of a file, with its line."""
    if "#" not in source:
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string, token.start[0]


def has_page(path: Path, root: Path) -> bool:
    """Tell whether a file is the `__init__` of a package that has modules of its own."""
    name = path.relative_to(root).as_posix()
    if path.name != "__init__.py" or not name.startswith(f"{PACKAGE}/") or name.startswith(NO_PAGE):
        return False
    return any(other.name != "__init__.py" for other in path.parent.rglob("*.py"))


def breaches_in(path: Path, root: Path = ROOT) -> Iterator[Breach]:
    """Yield what one file breaks."""
    name = path.relative_to(root).as_posix()
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    if ast.get_docstring(tree) is None and tree.body:
        yield Breach(name, 1, "no module docstring", path.name)
    for node, doc, line in docstrings(tree):
        first = doc.strip().partition("\n")[0]
        problem = opening_problem(doc)
        if problem:
            yield Breach(name, line, problem, first)
        for at, text in enumerate(doc.splitlines()):
            yield from _words(name, line + at, text)
        if isinstance(node, ast.Module) and has_page(path, root):
            yield from (Breach(name, line, problem, first) for problem in page_problems(doc))
    for text, line in comments(source):
        yield from _words(name, line, text)


def _words(name: str, line: int, text: str) -> Iterator[Breach]:
    for kind, pattern in (("vague word", VAGUE), ("metaphor", METAPHORS)):
        # What stands in backquotes is a name of the code, or what a user types.
        found = pattern.search(text) and pattern.search(re.sub(r"`[^`]*`", "``", text))
        if found:
            yield Breach(name, line, f"{kind} {found[0]!r}", text.strip())


def files(root: Path = ROOT) -> list[Path]:
    """Return the files that are held to the rules: the package, and the helper modules of the tests."""
    helpers = (path for path in (root / "tests").rglob("*.py") if not path.name.startswith("test_"))
    return sorted([*(root / PACKAGE).rglob("*.py"), *helpers])


def breaches(paths: Iterable[Path], root: Path = ROOT) -> list[Breach]:
    """Return what the files break, in order."""
    return sorted(breach for path in paths for breach in breaches_in(path, root))


def test_prose_is_as_contributing_says() -> None:
    found = breaches(files())
    assert not found, "\n".join(map(str, found[:40])) + "\npython tests/test_prose.py lists them all"


def error_names(docs: Iterable[str]) -> Iterator[str]:
    """Yield the exceptions that the `Raises:` parts of docstrings name."""
    for doc in docs:
        for part in re.findall(r"^Raises:\n((?:[ \t]+.*\n?)*)", doc, re.MULTILINE):
            yield from re.findall(r"^ {4}(\w+): ", part, re.MULTILINE)


def test_the_errors_that_docstrings_name_are_there() -> None:
    there = {*dir(builtins), "asyncio"}
    named: set[tuple[str, str]] = set()
    for path in (ROOT / PACKAGE).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                there.update(alias.asname or alias.name for alias in node.names)
            elif isinstance(node, DOCUMENTED):
                if isinstance(node, ast.ClassDef):
                    there.add(node.name)
                doc = ast.get_docstring(node) or ""
                if "Raises:" in doc:
                    named.update((name, path.relative_to(ROOT).as_posix()) for name in error_names([doc]))
    assert len(named) > 100
    assert not sorted((name, path) for name, path in named if name not in there)


def main(arguments: list[str]) -> int:
    """Print the breaches below the paths given; return how the program ends."""
    below = [Path(argument).resolve() for argument in arguments if not argument.startswith("--")]
    chosen = [path for path in files() if not below or any(path.is_relative_to(folder) for folder in below)]
    found = breaches(chosen)
    if "--count" in arguments:
        for folder, count in Counter(breach.path.rpartition("/")[0] for breach in found).most_common():
            print(f"{count:5} {folder}")
    else:
        for breach in found:
            print(breach)
    print(f"{len(found)} in {len(chosen)} files", file=sys.stderr)
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
