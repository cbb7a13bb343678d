"""Holds messages to giving their reasons: no exception goes into a text by itself, since its own text may be empty.

`aggregator.domain.text.error_text` names an exception without a text by its type. The exceptions of the package always
have one; those of Python and of libraries, such as `TimeoutError()`, need not. Lines of the log that get an exception
as an argument are seen to by their formatter (tests/unit/test_logs.py).
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from aggregator.accounts.oauth.fetch import FetchFailed, GuardedFetch
from aggregator.domain.errors import UpstreamError, operator_text, reason_of
from aggregator.domain.text.error_text import error_text
from tests.source_trees import parsed

PACKAGE: Final = Path(__file__).resolve().parents[1] / "aggregator"
# The one function that may, and a search in a text for a word.
ALLOWED: Final = frozenset({"domain/text/error_text.py", "domain/connection_causes.py"})

# Names of exceptions, and whether their text may be empty.
Known = Mapping[str, bool]


def _classes(node: ast.expr | None) -> Iterator[str]:
    """Yield the names of the classes that an `except`, or an annotation, has."""
    if node is None:
        yield "BaseException"
        return
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr


def bare(tree: ast.AST, ours: frozenset[str]) -> list[int]:
    """Return the lines in which an exception that may have no text becomes a part of a text as it is."""
    found: list[int] = []

    def is_bare(node: ast.AST, known: Known) -> bool:
        return isinstance(node, ast.Name) and known.get(node.id, False)

    def visit(node: ast.AST, known: Known, parent: ast.AST | None) -> None:
        match node:
            case ast.ExceptHandler(type=kind, name=str(name)):
                known = {**known, name: not ours.issuperset(_classes(kind))}
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                    classes = set(_classes(one.annotation)) if one.annotation is not None else set()
                    raised = any(name.endswith(("Exception", "Error")) and name not in ours for name in classes)
                    known = {**known, one.arg: raised}
            case ast.FormattedValue(value=value, conversion=conversion) if is_bare(value, known):
                if conversion != ord("r"):
                    found.append(node.lineno)
            case ast.Call(func=ast.Name(id="str"), args=[value]) if is_bare(value, known):
                fallback = (
                    isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.Or) and parent.values[-1] != node
                )
                # The second part of a reason is the words of the server, of which there may be none.
                words = (
                    isinstance(parent, ast.Call)
                    and isinstance(parent.func, ast.Name)
                    and parent.func.id == "Reason"
                    and node in parent.args[1:]
                )
                if not fallback and not isinstance(parent, ast.Compare) and not words:
                    found.append(node.lineno)
            case _:
                pass
        for below in ast.iter_child_nodes(node):
            visit(below, known, node)

    visit(tree, {}, None)
    return found


def test_no_text_ends_in_an_empty_reason() -> None:
    trees = {path: parsed(path) for path in sorted(PACKAGE.rglob("*.py"))}
    ours = frozenset(node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert len(ours) > 100
    found = [
        f"aggregator/{name}:{line}: an exception goes into a text as it is; use error_text(...)"
        for path, tree in trees.items()
        if (name := path.relative_to(PACKAGE).as_posix()) not in ALLOWED
        for line in bare(tree, ours)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("try:\n    f()\nexcept OSError as e:\n    g(f'not seen: {e}')", 1),
        ("try:\n    f()\nexcept OSError as e:\n    g(f'not seen: {e!s:.20}')", 1),
        ("try:\n    f()\nexcept (OSError, Ours) as e:\n    g(str(e))", 1),
        ("try:\n    f()\nexcept lib.ClientError as e:\n    g(None or str(e))", 1),
        ("def f(e: BaseException) -> str:\n    return f'{e}'", 1),
        ("def f(e: OSError | None) -> str:\n    return f'{e}'", 1),
        ("def f(e: OSError) -> str:\n    return Reason(str(e))", 1),
        ("def f(e: OSError) -> str:\n    return Reason('it ended', str(e))", 0),
        ("try:\n    f()\nexcept OSError as e:\n    g(f'not seen: {e!r}', str(e) or 'it is away', 'x' in str(e))", 0),
        ("try:\n    f()\nexcept Ours as e:\n    g(f'not seen: {e}')", 0),
        ("def f(e: Ours, n: int) -> str:\n    return f'{e} {n}'", 0),
    ],
)
def test_what_the_law_finds(source: str, count: int) -> None:
    assert len(bare(ast.parse(source), frozenset({"Ours"}))) == count


@pytest.mark.parametrize("error", [TimeoutError(), OSError(), ValueError(""), ConnectionResetError(" "), KeyError()])
def test_an_exception_without_a_text_is_named(error: Exception) -> None:
    name = type(error).__name__
    assert error_text(error) == name
    assert operator_text(error) == name
    assert str(reason_of(error)) == name


def test_an_exception_with_a_text_says_it() -> None:
    assert error_text(OSError("no way")) == "no way"
    assert operator_text(OSError("no way")) == "no way"
    assert error_text(UpstreamError("s", "s: it is away")) == "s: it is away"


async def _named(host: str, port: int) -> list[str]:
    return ["93.184.216.34"]


@pytest.mark.parametrize("error", [ConnectionResetError(), ValueError()])
async def test_a_fetch_tells_why_it_failed(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is reset has no text of its own."""

    async def failing(*_: object) -> None:
        raise error

    monkeypatch.setattr("aggregator.accounts.oauth.pinned.send_pinned", failing)
    with pytest.raises(FetchFailed) as failed:
        await GuardedFetch(resolve=_named).get("https://issuer.example/keys")
    assert str(failed.value).endswith(f": {type(error).__name__}")
