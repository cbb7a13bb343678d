"""The planting of faults (`scripts/mutate`): each is one edit that compiles; the seed alone says which are drawn."""

import ast
from pathlib import Path

import pytest

from tests.mutate import ROOT, Fault, faults, faults_of, planted, sample
from tests.mutate_areas import AREAS, modules

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


@pytest.mark.slow
def test_the_seed_says_which_are_drawn_and_every_file_has_its_turn() -> None:
    offered = list(faults_of(ROOT, "identity"))
    drawn = sample(offered, 12, 7)
    assert drawn == sample(offered, 12, 7) != sample(offered, 12, 8)
    files = {fault.path for fault in offered}
    assert len({fault.path for fault in drawn}) == min(12, len(files))
    for fault in drawn:
        ast.parse(planted((ROOT / fault.path).read_text(encoding="utf-8"), fault))


def test_every_area_has_faults_on_offer() -> None:
    assert [area for area in AREAS if next(faults_of(ROOT, area), None) is None] == []


def test_every_module_has_an_area() -> None:
    """And every path that an area names is there, so that a module that moves takes its area along."""
    assert [path for path, area in modules(ROOT).items() if not area] == []
    named = [path for area in AREAS.values() for path in (*area.code, *area.tests)]
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_folder_of_tests_has_an_area() -> None:
    folders = {path.parent.relative_to(ROOT).parts[1] for path in (ROOT / "tests").rglob("*/test_*.py")}
    named = {path.split("/")[1] for area in AREAS.values() for path in area.tests}
    assert folders - named == set()
