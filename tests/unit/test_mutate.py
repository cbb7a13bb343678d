"""The planting of faults (`scripts/mutate`): each is one edit that compiles; the seed alone says which are drawn."""

import ast
from pathlib import Path
from typing import Any, Final

import pytest

from tests.mutate import ROOT, Fault, faults, faults_of, planted, sample
from tests.mutate_areas import AREAS, modules
from tests.mutate_runner import CannotPlant, plant

_CODE = '''
TABLE: Final = frozenset({"a", "b", "c"})

def judge(rule, tool):
    """Return the verdict, é."""
    if rule.allows and not tool.hidden:
        log.info("allowed")
        tool.count()
        return True
    if tool.gone:
        raise ValueError(tool)
    return clean(tool)

def __repr__(self):
    return text(self)

if TYPE_CHECKING:
    register(judge)

if __name__ == "__main__":
    judge()
'''


def _edits(tmp_path: Path) -> set[tuple[str, str]]:
    (tmp_path / "code.py").write_text(_CODE, encoding="utf-8")
    return {(fault.old, fault.new) for fault in faults(tmp_path, ("code.py",))}


def test_conditions_calls_raises_returns_and_rows_are_edited(tmp_path: Path) -> None:
    assert _edits(tmp_path) == {
        ('{"a", "b", "c"}', '{"b", "c"}'),
        ('{"a", "b", "c"}', '{"a", "c"}'),
        ('{"a", "b", "c"}', '{"a", "b"}'),
        ("rule.allows and not tool.hidden", "(not (rule.allows and not tool.hidden))"),
        ("rule.allows and not tool.hidden", "((rule.allows))"),
        ("rule.allows and not tool.hidden", "((not tool.hidden))"),
        ("tool.count()", "pass"),
        ("True", "False"),
        ("tool.gone", "(not (tool.gone))"),
        ("raise ValueError(tool)", "pass"),
        ("clean(tool)", "tool"),
    }


def test_an_edit_changes_its_place_and_nothing_else() -> None:
    fault = Fault("code.py", 6, _CODE.encode().index(b"tool.gone"), "tool.gone", "(not (tool.gone))")
    assert planted(_CODE, fault) == _CODE.replace("tool.gone", "(not (tool.gone))")


def _imported(path: Path) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)  # noqa: S102
    return names


_MODULE: Final = """
LIMITS = (1, 2)

class Judge:
    def judges(self, number):
        def inner():
            return number > LIMITS[0]
        return [inner() for _ in LIMITS]
"""


def test_a_function_that_was_imported_gets_the_fault(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text(_MODULE, encoding="utf-8")
    names = _imported(path)
    judge = names["Judge"]()
    assert judge.judges(2) == [True, True]
    plant(path, _MODULE, _MODULE.replace("number >", "number <="))
    assert judge.judges(2) == [False, False]


@pytest.mark.parametrize("change", [("(1, 2)", "(1,)"), ("Judge:", "Judge(int):"), ("[0]", "[0] and __class__")])
def test_a_fault_outside_of_functions_is_not_planted(tmp_path: Path, change: tuple[str, str]) -> None:
    path = tmp_path / "code.py"
    path.write_text(_MODULE, encoding="utf-8")
    names = _imported(path)
    with pytest.raises(CannotPlant):
        plant(path, _MODULE, _MODULE.replace(*change))
    assert names["Judge"]().judges(2) == [True, True]


@pytest.mark.slow
def test_the_seed_says_which_are_drawn_and_every_file_has_its_turn() -> None:
    offered = list(faults_of(ROOT, "identity"))
    drawn = sample(ROOT, offered, 12, 7)
    assert drawn == sample(ROOT, offered, 12, 7) != sample(ROOT, offered, 12, 8)
    files = {fault.path for fault in offered}
    assert len({fault.path for fault in drawn}) == min(12, len(files))
    for fault in drawn:
        ast.parse(planted((ROOT / fault.path).read_text(encoding="utf-8"), fault))


def test_every_area_has_faults_on_offer() -> None:
    of = modules(ROOT)
    by_area = {area: [path for path, its in of.items() if its == area] for area in AREAS}
    assert [area for area, paths in by_area.items() if next(faults(ROOT, paths), None) is None] == []


def test_every_module_has_an_area() -> None:
    """And every path that an area names is there, so that a module that moves takes its area along."""
    assert [path for path, area in modules(ROOT).items() if not area] == []
    named = [path for area in AREAS.values() for path in (*area.code, *area.tests)]
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_folder_of_tests_has_an_area() -> None:
    folders = {path.parent.relative_to(ROOT).parts[1] for path in (ROOT / "tests").rglob("*/test_*.py")}
    named = {path.split("/")[1] for area in AREAS.values() for path in area.tests}
    assert folders - named == set()
