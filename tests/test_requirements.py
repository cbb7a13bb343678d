"""Holds the requirements, `tests/requirements.toml`, and the tests to each other, by reading the files.

A test says what it proves in its docstring: at the start, `C8, C10: blocks untouched.`, or on a line of its own,
`Proves: C8, C10`. Each id that a test names is in the table, and each id in the table is named by a test.

`python tests/test_requirements.py [ID ...]` prints the requirements, all or these, each with the tests that prove it.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
TABLE: Final = ROOT / "tests" / "requirements.toml"

_ID: Final = r"[A-F][0-9]{1,2}"
_CLAIM: Final = re.compile(rf"(?:\A(?={_ID}[,:])|^\s*Proves: )({_ID}(?:, {_ID})*)(?::|\.(?=\s)|\.?\s*$)", re.MULTILINE)
# Looks like a claim, and is not written as one.
_NEARLY: Final = re.compile(rf"^\s*(?:Proves\b|{_ID}(?: |,|/|:|;))", re.MULTILINE)


@dataclass(frozen=True)
class Test:
    """One test function, by its node id without parameters."""

    __test__ = False

    node: str
    doc: str

    @property
    def claims(self) -> frozenset[str]:
        return frozenset(id_ for claim in _CLAIM.finditer(self.doc) for id_ in claim[1].split(", "))


@dataclass(frozen=True)
class Requirement:
    """One entry of the table; `source` is the page of the documentation that promises it, perhaps with a heading."""

    id: str
    says: str
    source: str


def _tests_in(path: Path) -> Iterator[Test]:
    name = path.relative_to(ROOT).as_posix()
    stack: list[tuple[str, ast.stmt]] = [(name, part) for part in ast.parse(path.read_text(encoding="utf-8")).body]
    while stack:
        inside, node = stack.pop()
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            stack += [(f"{inside}::{node.name}", part) for part in node.body]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield Test(f"{inside}::{node.name}", ast.get_docstring(node) or "")


@cache
def _tests() -> tuple[Test, ...]:
    return tuple(test for path in sorted((ROOT / "tests").rglob("test_*.py")) for test in _tests_in(path))


@cache
def _table() -> tuple[Requirement, ...]:
    read = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return tuple(Requirement(id_, **entry) for id_, entry in read.items())


def _proofs() -> dict[str, list[str]]:
    """Return the tests that name each id of the table, by node id."""
    return {entry.id: [test.node for test in _tests() if entry.id in test.claims] for entry in _table()}


def _anchors(page: Path) -> set[str]:
    """Return the headings of a page as links name them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_requirement_is_a_sentence_with_a_source() -> None:
    for entry in _table():
        assert re.fullmatch(_ID, entry.id), entry.id
        assert entry.says.endswith("."), f"{entry.id} does not say in a sentence what it asks"
        page, _, heading = entry.source.partition("#")
        assert (ROOT / page).is_file(), f"{entry.id}: there is no {page}"
        assert not heading or heading in _anchors(ROOT / page), f"{entry.id}: {page} has no heading #{heading}"


def test_every_requirement_is_proven() -> None:
    assert not [id_ for id_, proofs in _proofs().items() if not proofs]


def test_every_id_that_a_test_names_is_a_requirement() -> None:
    known = {entry.id for entry in _table()}
    assert not [f"{test.node}: {sorted(test.claims - known)}" for test in _tests() if test.claims - known]


def test_ids_are_named_so_that_they_are_found() -> None:
    assert not [test.node for test in _tests() if _NEARLY.search(test.doc) and not test.claims]


def test_the_table_is_in_order() -> None:
    ids = [entry.id for entry in _table()]
    assert ids == sorted(ids, key=lambda id_: (id_[0], int(id_[1:])))


def main(wanted: list[str]) -> None:
    """Print the requirements of these ids, or all of them, with the tests that prove each."""
    proofs = _proofs()
    for entry in _table():
        if not wanted or entry.id in wanted:
            print(f"{entry.id}  {entry.says}  ({entry.source})")
            for node in proofs[entry.id]:
                print(f"    {node}")


if __name__ == "__main__":
    main(sys.argv[1:])
