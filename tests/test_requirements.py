"""The table of requirements, `tests/requirements.toml`, held to the tests both ways.

A test says what it proves in its docstring: at the start, `C8, C10: blocks untouched.`, or on a line of its own,
`Proves: C8, C10`. Each such claim is in the table under its id, and each test the table names exists. A test may stand
in the table without saying so itself. Tests are found by reading the files; nothing is run.

`python tests/test_requirements.py` adds to the table what tests claim, and takes out tests that are gone.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
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
    """What an id means, and which tests prove it."""

    means: str
    tests: tuple[str, ...]


def _tests_in(path: Path) -> Iterator[Test]:
    name = path.relative_to(ROOT).as_posix()
    stack: list[tuple[str, ast.stmt]] = [(name, part) for part in ast.parse(path.read_text(encoding="utf-8")).body]
    while stack:
        inside, node = stack.pop()
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            stack += [(f"{inside}::{node.name}", part) for part in node.body]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield Test(f"{inside}::{node.name}", ast.get_docstring(node) or "")


def _tests() -> dict[str, Test]:
    return {test.node: test for path in sorted((ROOT / "tests").rglob("test_*.py")) for test in _tests_in(path)}


def _table() -> dict[str, Requirement]:
    read = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {id_: Requirement(entry["means"], tuple(entry["tests"])) for id_, entry in read.items()}


def test_every_entry_has_a_meaning_and_tests() -> None:
    for id_, entry in _table().items():
        assert re.fullmatch(_ID, id_), id_
        assert entry.means.endswith("."), f"{id_} does not say in a sentence what it means"
        assert entry.tests, f"{id_} is proven by nothing"
        assert len(set(entry.tests)) == len(entry.tests), f"{id_} names a test twice"


def test_every_test_in_the_table_exists() -> None:
    tests = _tests()
    gone = [f"{id_}: {node}" for id_, entry in _table().items() for node in entry.tests if node not in tests]
    assert not gone, "python tests/test_requirements.py takes them out"


def test_every_claim_of_a_test_is_in_the_table() -> None:
    table = _table()
    claims = [(id_, test.node) for test in _tests().values() for id_ in sorted(test.claims)]
    unknown = sorted({id_ for id_, _ in claims} - set(table))
    assert not unknown, "these ids have no entry: add one with its meaning"
    missing = [f"{id_}: {node}" for id_, node in claims if node not in table[id_].tests]
    assert not missing, "python tests/test_requirements.py puts them in"


def test_claims_are_written_so_that_they_are_found() -> None:
    assert not [test.node for test in _tests().values() if _NEARLY.search(test.doc) and not test.claims]


def test_the_table_is_in_order() -> None:
    assert TABLE.read_text(encoding="utf-8") == _written(_table()), "python tests/test_requirements.py puts it in order"


def _written(table: dict[str, Requirement]) -> str:
    parts = [
        "# Requirement id -> the tests that prove it. tests/test_requirements.py holds it to the tests and tidies it."
    ]
    for id_ in sorted(table, key=lambda id_: (id_[0], int(id_[1:]))):
        listed = "".join(f'  "{node}",\n' for node in sorted(table[id_].tests))
        means = table[id_].means.replace("\\", "\\\\").replace('"', '\\"')
        parts.append(f'[{id_}]\nmeans = "{means}"\ntests = [\n{listed}]')
    return "\n\n".join(parts) + "\n"


def _completed() -> dict[str, Requirement]:
    tests = _tests()
    return {
        id_: Requirement(
            entry.means,
            tuple({*(n for n in entry.tests if n in tests), *(n for n, test in tests.items() if id_ in test.claims)}),
        )
        for id_, entry in _table().items()
    }


if __name__ == "__main__":
    TABLE.write_text(_written(_completed()), encoding="utf-8")
