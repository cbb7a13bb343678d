"""Runs the tests of one area once for each fault, from one process that has collected them: a plugin of pytest.

`tests.mutate` starts it and writes one fault in JSON a line to its standard input. For each fault the process forks.
The child gives the functions of the fault their new code, runs the tests until one fails, and ends. The file on the
disk has the fault too, for the programs that tests start. So no fault pays for the imports and for the collection
again. A fault outside of functions (a table, a default, a decorator) cannot be planted into a running program: the
child says so, and `tests.mutate` runs a new process for it.
"""

import contextlib
import gc
import json
import math
import os
import re
import select
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final, TextIO

import pytest
from _pytest.main import Session
from _pytest.reports import TestReport

# After how long a child that has ended no further test is stopped, in seconds: pytest stops a test after 120.
_STUCK: Final = 200
# The words of a path, and the public names that a module defines.
_WORD: Final = re.compile(r"[a-z0-9]+")
_DEFINED: Final = re.compile(r"^(?:class|def|async def) ([A-Za-z]\w{4,})", re.MULTILINE)
# Variables of the environment: the descriptors to read faults from, and to write answers to.
FAULTS: Final = "MUTATE_FAULTS"
ANSWERS: Final = "MUTATE_ANSWERS"
# What is answered in place of a test that failed.
NEW_PROCESS: Final = "needs a new process"
NOT_NOTICED: Final = "not noticed"


class CannotPlant(Exception):
    """The fault changes more than the code of functions."""


def plant(path: Path, old: str, new: str) -> None:
    """Give the functions of the module at `path`, as `old` defines them, the code of the text `new`.

    Raises:
        CannotPlant: The change is not inside of functions that are imported.
    """
    changed = dict(_changed(_compiled(path, old), _compiled(path, new)))
    planted = set()
    # Frozen objects, which `tests/conftest.py` makes, are not listed.
    gc.unfreeze()
    for function in [found for found in gc.get_objects() if isinstance(found, FunctionType)]:
        code = function.__code__
        if code.co_filename == str(path) and (other := changed.get((code.co_qualname, code.co_firstlineno))):
            try:
                function.__code__ = other
            except ValueError as error:
                raise CannotPlant from error
            planted.add((code.co_qualname, code.co_firstlineno))
    if not planted:
        raise CannotPlant


def _compiled(path: Path, text: str) -> CodeType:
    return compile(text, str(path), "exec", dont_inherit=True)


def _changed(old: CodeType, new: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    """Every changed function in these bodies of a module or class, with the functions inside of it."""
    ours = [part for part in old.co_consts if isinstance(part, CodeType)]
    theirs = [part for part in new.co_consts if isinstance(part, CodeType)]
    if old.co_code != new.co_code or _plain(old) != _plain(new) or len(ours) != len(theirs):
        raise CannotPlant
    for one, other in zip(ours, theirs, strict=True):
        if one == other:
            continue
        # Bodies of classes run once, at the import; those of functions have local variables of their own.
        if one.co_flags & 2:
            yield from _with_inner(one, other)
        else:
            yield from _changed(one, other)


def _plain(code: CodeType) -> tuple[object, ...]:
    constants = [part for part in code.co_consts if not isinstance(part, CodeType)]
    return (repr(constants), code.co_names, code.co_varnames, code.co_freevars)


def _with_inner(old: CodeType, new: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    yield (old.co_qualname, old.co_firstlineno), new
    theirs = {part.co_qualname: part for part in new.co_consts if isinstance(part, CodeType)}
    for part in old.co_consts:
        if isinstance(part, CodeType) and part.co_qualname in theirs and part != theirs[part.co_qualname]:
            yield from _with_inner(part, theirs[part.co_qualname])


class _Results:
    """Notes the first test that fails, and that tests go on."""

    def __init__(self, out: int) -> None:
        self._out = out
        self.failed: str | None = None

    def pytest_runtest_logreport(self, report: TestReport) -> None:
        if report.failed and self.failed is None:
            self.failed = report.nodeid
        os.write(self._out, b".")


def _run(session: Session, items: Sequence[pytest.Item], out: int, end: float) -> str | None:
    """Run the tests until one fails, and start none after `end`; return the one that failed."""
    results = _Results(out)
    session.config.pluginmanager.register(results)
    last = len(items) - 1
    with contextlib.suppress(session.Failed, session.Interrupted):
        for place, item in enumerate(items):
            following = items[place + 1] if place < last else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if results.failed is not None or time.monotonic() > end:
                break
    with contextlib.suppress(Exception):
        session._setupstate.teardown_exact(None)
    return results.failed


def _child(
    session: Session, items: Sequence[pytest.Item], fault: tuple[Path, str, str] | None, out: int, end: float
) -> None:
    os.setsid()
    if fault is not None:
        try:
            plant(*fault)
        except CannotPlant:
            os.write(out, NEW_PROCESS.encode())
            return
    failed = _run(session, items, out, end)
    os.write(out, b"\n" + (failed or NOT_NOTICED).encode())


def _in_child(
    session: Session, items: Sequence[pytest.Item], fault: tuple[Path, str, str] | None, end: float = math.inf
) -> str:
    """Return the test that fails, NOT_NOTICED, NEW_PROCESS, or that the child hangs or died.

    end: the time after which no further test is started.
    """
    back, out = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(back)
            _child(session, items, fault, out, end)
        finally:
            os._exit(0)
    os.close(out)
    text = _read(back)
    os.close(back)
    for target in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            target(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if text is None:
        return "it hangs"
    said = text.decode(errors="replace")
    if said == NEW_PROCESS:
        return NEW_PROCESS
    return said.rpartition("\n")[2] if "\n" in said else "the process of the tests died"


def _read(back: int) -> bytes | None:
    """Read until the child's last word; None if it is stuck."""
    text = b""
    while True:
        ready, _, _ = select.select([back], [], [], _STUCK)
        if not ready:
            return None
        part = os.read(back, 65536)
        text += part
        if not part:
            return text
        if b"\n" in text:
            # The name of a test is written at once.
            return text


def _nearest_first(items: Sequence[pytest.Item], path: str) -> list[pytest.Item]:
    """Order files of tests: first those that name the module, then by the words that their paths share with its own and
    by its names that they use.
    """
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    parent, _, last = module.rpartition(".")
    own = {*_WORD.findall(path)} - {"py", "aggregator"}
    names = [*_DEFINED.findall(Path(path).read_text(encoding="utf-8"))]
    near: dict[Path, tuple[bool, int]] = {}
    for item in items:
        if item.path not in near:
            text = item.path.read_text(encoding="utf-8")
            named = module in text or f"{parent} import {last}" in text
            shared = own & {*_WORD.findall(f"{item.path.parent.name} {item.path.stem}")}
            near[item.path] = not named, -2 * len(shared) - sum(name in text for name in names)
    return sorted(items, key=lambda item: near[item.path])


def pytest_runtestloop(session: Session) -> bool:
    """Take faults from the standard input in place of running the tests once."""
    if session.testsfailed:
        return True
    with (
        os.fdopen(int(os.environ[FAULTS])) as inputs,
        os.fdopen(int(os.environ[ANSWERS]), "w") as outputs,
    ):
        _serve(session, inputs, outputs)
    return True


def _first_sound(
    items: Sequence[pytest.Item], path: Path, texts: tuple[str, str], session: Session, unsound: set[str], end: float
) -> str:
    """Return the first test that fails with the fault, again with it alone, and never without it."""
    old, new = texts
    while True:
        items = [item for item in items if item.nodeid not in unsound]
        path.write_text(new, encoding="utf-8")
        try:
            said = _in_child(session, items, (path, old, new), end)
            place = next((place for place, item in enumerate(items) if item.nodeid == said), None)
            if place is None:
                return said
            alone = items[place : place + 1]
            again = _in_child(session, alone, (path, old, new))
        finally:
            path.write_text(old, encoding="utf-8")
        if again == said != _in_child(session, alone, None):
            return said
        # It depends on what runs beside it.
        unsound.add(said)


def _serve(session: Session, inputs: TextIO, outputs: TextIO) -> None:
    unsound: set[str] = set()
    for line in inputs:
        fault = json.loads(line)
        path = Path(fault["file"])
        old, new = path.read_text(encoding="utf-8"), fault["text"]
        began = time.monotonic()
        end = math.inf if fault["seconds"] is None else began + fault["seconds"]
        said = _first_sound(_nearest_first(session.items, fault["path"]), path, (old, new), session, unsound, end)
        outputs.write(json.dumps([said, round(time.monotonic() - began)]) + "\n")
        outputs.flush()
