"""Holds every module to the one way to a terminal, by reading the source: `aggregator.cli.runtime.writer`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.source_trees import parsed

ROOT: Final = Path(__file__).resolve().parents[1]

# The ways around it, each with its reason.
EXCEPTIONS: Final = {
    ("aggregator/cli/runtime/writer.py", "print"): "the writer",
    ("aggregator/cli/runtime/writer.py", "sys.stdout"): "the writer",
    ("aggregator/cli/runtime/prompts.py", "typer.prompt"): "questions are escaped there",
    ("aggregator/cli/runtime/prompts.py", "typer.confirm"): "questions are escaped there",
    ("aggregator/cli/runtime/screen.py", "rich.console.Console"): "escapes texts and keeps our colours",
    ("aggregator/cli/runtime/screen.py", "sys.stdout"): "its width",
    ("aggregator/cli/runtime/screen.py", "sys.stderr"): "its width",
    ("aggregator/cli/runtime/logs.py", "sys.stderr"): "the log; `LogFormatter` escapes each line",
    ("aggregator/cli/runtime/progress_table.py", "sys.stderr"): "gives the log its stream back",
    ("aggregator/cli/first_run/complete.py", "print"): "a shell splits at the tab, which is ours; the rest is escaped",
    ("aggregator/cli/store/printing.py", "sys.stderr"): "goes back in its line; numbers and names of our tables",
    ("aggregator/cli/store/backup.py", "sys.stdout"): "the bytes of a backup, never to a terminal",
    ("aggregator/cli/store/backup.py", "sys.stderr"): "handed to the writer",
    ("aggregator/cli/secrets/manage.py", "getpass.getpass"): "its question is escaped",
    ("aggregator/cli/servers/adding/asking.py", "getpass.getpass"): "its question is escaped",
    ("aggregator/cli/servers/adding/asking.py", "sys.stderr"): "where getpass asks",
    ("aggregator/cli/commands.py", "sys.stderr"): "closed when its reader is gone",
    ("aggregator/cli/__init__.py", "sys.stdout"): "whether it is open",
    ("aggregator/cli/__init__.py", "sys.stderr"): "whether it is open",
    ("aggregator/frontends/standard_streams.py", "sys.stdout"): "the protocol with a host",
    ("aggregator/schemas/workers/worker.py", "sys.stdout"): "frames for its parent",
    ("aggregator/code/sandbox/reader.py", "sys.stdout"): "the answer to its parent",
}
_BARE: Final = frozenset({"print", "input"})
_OTHER_WAYS: Final = frozenset({"sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}) | frozenset(
    f"{module}.{name}"
    for module, names in {
        "typer": ("echo", "secho", "prompt", "confirm", "launch", "progressbar"),
        "click": ("echo", "secho", "prompt", "confirm"),
        "rich": ("print", "print_json"),
        "rich.console": ("Console",),
        "getpass": ("getpass",),
        "traceback": ("print_exc", "print_exception", "print_stack"),
    }.items()
    for name in names
)
# A module without any of their last names has none of them, and is not parsed.
_WORDS: Final = re.compile(rf"\b(?:{'|'.join(sorted({way.rpartition('.')[2] for way in _BARE | _OTHER_WAYS}))})\b")


def ways_around(tree: ast.Module) -> Iterator[str]:
    """Yield what a module prints with that is not the writer, by its full name."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {one.asname or one.name: one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    yield from (name for name in names.values() if name in _OTHER_WAYS)
    harmless = {id(one) for node in ast.walk(tree) for one in _harmless(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if node.id in _BARE and node.id not in names:
                yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and id(node) not in harmless:
            name = f"{names.get(node.value.id, node.value.id)}.{node.attr}"
            if name in _OTHER_WAYS:
                yield name


def _harmless(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the streams that are asked whether they are a terminal, or given to the writer."""
    if isinstance(node, ast.Attribute) and node.attr == "isatty":
        yield node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("say", "print_rows"):
        for given in (*node.args, *(keyword.value for keyword in node.keywords)):
            yield from ast.walk(given)


def test_no_module_prints_but_through_the_writer() -> None:
    found = {
        (str(path.relative_to(ROOT)), way)
        for path in sorted((ROOT / "aggregator").rglob("*.py"))
        if _WORDS.search(path.read_text(encoding="utf-8"))
        for way in ways_around(parsed(path))
    }
    assert sorted(found - EXCEPTIONS.keys()) == [], "print with `say` of aggregator.cli.runtime.writer"
    assert sorted(EXCEPTIONS.keys() - found) == [], "these exceptions are needed no more"


def test_each_way_around_is_seen() -> None:
    ways = {
        "print('a')": "print",
        "tell = print": "print",
        "import sys\nsys.stdout.write('a')": "sys.stdout",
        "import sys\nprinted(file=sys.stderr)": "sys.stderr",
        "from sys import stderr": "sys.stderr",
        "import typer as t\nt.echo('a')": "typer.echo",
        "from rich.console import Console as C": "rich.console.Console",
    }
    for source, way in ways.items():
        assert way in set(ways_around(ast.parse(source))), source
    assert not set(ways_around(ast.parse("import sys\nsay('a', file=sys.stderr)\nsys.stdout.isatty()\nout.print(1)")))
