"""docs/python.md#agent-frameworks says what is so: its program for this process runs as it stands there."""

import re
from pathlib import Path
from typing import Final

import pytest

from tests.adapters.config_folder import ConfigFolder

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs" / "python.md").read_text(encoding="utf-8").partition("\n## Agent frameworks\n")[2]
BLOCKS: Final = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: E6, E11, C14. With the legal example as a server in the same process."""
    ConfigFolder(
        tmp_path,
        {"legal": {"target": "examples.legal.server:build_server"}},
        {"agents": {"shop": {"allow": ["legal.search_*"]}}},
    )
    monkeypatch.chdir(tmp_path)
    exec(compile(BLOCKS[0], "docs/python.md", "exec"), {"__name__": "program"})  # noqa: S102
    printed = capsys.readouterr().out
    assert "legal__search_statutes {'source': 'local', 'server': 'legal'" in printed
    assert "legal__get_document_template" not in printed
    assert "\ndice None" in printed
    assert "\nsuccess " in printed
    assert "劳动合同法" in printed


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_others_are_python(block: str) -> None:
    """Those need what is not installed here; they can be read at least."""
    assert compile(block, "docs/python.md", "exec").co_code
