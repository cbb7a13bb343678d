"""The planting of faults (`scripts/mutate`): each is one edit that compiles; the seed alone says which are drawn."""

import ast
from pathlib import Path

import pytest

from tests.mutate import AREAS, ROOT, Fault, faults, planted, sample

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
    return {(fault.old, fault.new) for fault in faults(tmp_path, ("*.py",))}


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
    offered = list(faults(ROOT, AREAS["identity"].code))
    drawn = sample(offered, 12, 7)
    assert drawn == sample(offered, 12, 7) != sample(offered, 12, 8)
    files = {fault.path for fault in offered}
    assert len({fault.path for fault in drawn}) == min(12, len(files))
    for fault in drawn:
        ast.parse(planted((ROOT / fault.path).read_text(encoding="utf-8"), fault))


def test_every_area_has_code_and_tests() -> None:
    for name, area in AREAS.items():
        assert any(True for _ in faults(ROOT, area.code)), name
        assert [path for path in area.tests if not (ROOT / path).exists()] == [], name
