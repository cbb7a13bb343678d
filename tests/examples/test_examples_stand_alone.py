"""The examples import nothing of the product, and importing them does nothing."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "examples").rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_imports_nothing_of_the_product(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not {name for name in imported if name.split(".")[0] in ("aggregator", "tests", "benchmarks")}
    assert ast.get_docstring(tree)


def test_importing_has_no_side_effects() -> None:
    modules = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in FILES]
    script = "; ".join(f"import {module}" for module in modules)
    check = "import logging, signal, threading"
    check += "; before = signal.getsignal(signal.SIGTERM)"
    check += f"; {script}"
    check += "; assert signal.getsignal(signal.SIGTERM) == before and threading.active_count() == 1"
    check += " and not logging.getLogger().handlers"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", check], cwd=ROOT, capture_output=True, text=True, timeout=10, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("words", [["--help"], ["--no-such-option"]])
@pytest.mark.parametrize("example", ["examples.amap", "examples.legal"])
def test_an_example_explains_its_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], example: str, words: list[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [example, *words])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"{example}.__main__").main()
    out, err = capsys.readouterr()
    assert f"usage: python -m {example}" in out + err
    assert (ended.value.code, "serve the" in out) == ((0, True) if words == ["--help"] else (2, False))
