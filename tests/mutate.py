"""Plants one-line faults in the code, one at a time, and says which of them the tests notice: `scripts/mutate`.

A fault is one edit of one condition, call, raise, return or table row, at a place drawn by a seed. The edit is made in
a copy of the last commit, in a temporary git worktree; the working tree is never touched. The tests of the fault's area
run until one fails that passes without the fault. A fault that no test notices is printed as a diff: either a test is
missing, or the line has no effect and can go.
"""

import argparse
import ast
import contextlib
import json
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tests import MUTANTS
from tests.mutate_areas import AREAS, modules
from tests.mutate_runner import ANSWERS, FAULTS, NEW_PROCESS, NOT_NOTICED

ROOT: Final = Path(__file__).resolve().parents[1]
# After how many seconds the tests of an area, in a process of their own, count as hanging.
_LONGEST: Final = 1_500
# Text for a reader of logs or of a debugger: no test covers an edit there.
_FOR_READERS: Final = frozenset({"__repr__", "__str__"})
# In the condition of a block that no test runs: for type checkers, and for a module that is started by its name.
_NOT_RUN: Final = frozenset({"TYPE_CHECKING", "__main__"})
_LOGGING: Final = frozenset({"log", "logger", "logging"})


@dataclass(frozen=True)
class Fault:
    """One edit: `old` at `start` of the file's text becomes `new`."""

    path: str
    line: int
    start: int
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}\n    - {_one_line(self.old)}\n    + {_one_line(self.new)}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


class _Sites(ast.NodeVisitor):
    """A visitor that collects the edits which a file offers."""

    def __init__(self, path: str, text: str) -> None:
        self._path = path
        # Where each line begins, in bytes: what `ast` counts columns in.
        self._raw = text.encode()
        self._lines = [0]
        for line in self._raw.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._negated: set[ast.expr] = set()
        self.found: list[Fault] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name not in _FOR_READERS:
            self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if not _NOT_RUN & {*self._source(node.test).replace('"', " ").split()}:
            self._negate(node.test)
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._edit(test, "True")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left_out in node.values:
            kept = [self._source(value) for value in node.values if value is not left_out]
            word = " and " if isinstance(node.op, ast.And) else " or "
            self._edit(node, f"({word.join(f'({part})' for part in kept)})")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if node not in self._negated and len(node.ops) == 1 and (other := _OPPOSITE.get(type(node.ops[0]))):
            self._edit(node, f"{self._source(node.left)} {other} {self._source(node.comparators[0])}")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call) and not _logs(call):
            self._edit(node, "pass")
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._edit(node, "pass")

    def visit_Return(self, node: ast.Return) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool):
            self._edit(node.value, str(not node.value.value))
        elif isinstance(node.value, ast.Call) and len(node.value.args) == 1 and not node.value.keywords:
            self._edit(node.value, self._source(node.value.args[0]))
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave it: it states what the code before it made sure of."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._table(node.value)
            self.visit(node.value)

    def _table(self, value: ast.expr) -> None:
        """Leave out one row of a table."""
        if isinstance(value, ast.Call) and len(value.args) == 1:
            value = value.args[0]
        if isinstance(value, ast.Set | ast.Tuple | ast.List) and len(value.elts) > 2:
            for element in value.elts:
                kept = ", ".join(self._source(other) for other in value.elts if other is not element)
                brackets = {ast.Set: "{}", ast.Tuple: "()", ast.List: "[]"}[type(value)]
                self._edit(value, f"{brackets[0]}{kept}{brackets[1]}")

    def _negate(self, test: ast.expr) -> None:
        source = self._source(test)
        self._negated.add(test)
        inner = self._source(test.operand) if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else None
        self._edit(test, f"({inner})" if inner is not None else f"(not ({source}))")

    def _source(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._place(node)
        return self._raw[start:end].decode()

    def _place(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._lines[node.lineno - 1] + node.col_offset
        return start, self._lines[node.end_lineno - 1] + node.end_col_offset

    def _edit(self, node: ast.expr | ast.stmt, new: str) -> None:
        self.found.append(Fault(self._path, node.lineno, self._place(node)[0], self._source(node), new))


_OPPOSITE: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: ">=",
    ast.LtE: ">",
    ast.Gt: "<=",
    ast.GtE: "<",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}


def _logs(call: ast.Call) -> bool:
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and (function.value.id in _LOGGING or function.attr == "debug")
    )


def faults(folder: Path, paths: Iterable[str]) -> Iterator[Fault]:
    """Every edit on offer in these files of `folder`, in their order; one for each new text. Some do not compile."""
    for path in paths:
        text = (folder / path).read_text(encoding="utf-8")
        sites = _Sites(path, text)
        sites.visit(ast.parse(text))
        yield from dict.fromkeys(sites.found)


def planted(text: str, fault: Fault) -> str:
    """The text of a file with the fault in it."""
    raw = text.encode()
    assert raw[fault.start :].startswith(fault.old.encode())
    return (raw[: fault.start] + fault.new.encode() + raw[fault.start + len(fault.old.encode()) :]).decode()


def sample(folder: Path, offered: Iterable[Fault], count: int, seed: int) -> list[Fault]:
    """Up to `count` of them that compile, drawn by the seed: a file has its turn before one has two."""
    chance = random.Random(seed)  # noqa: S311
    by_file: dict[str, list[Fault]] = {}
    for fault in offered:
        by_file.setdefault(fault.path, []).append(fault)
    drawn: list[Fault] = []
    while by_file and len(drawn) < count:
        for path in chance.sample(sorted(by_file), len(by_file)):
            text = (folder / path).read_text(encoding="utf-8")
            left = by_file[path]
            while left:
                fault = left.pop(chance.randrange(len(left)))
                if _compiles(planted(text, fault)):
                    drawn.append(fault)
                    break
            if not left:
                del by_file[path]
            if len(drawn) == count:
                break
    return drawn


def _compiles(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def faults_of(folder: Path, area: str) -> Iterator[Fault]:
    """Every edit on offer in the modules of an area."""
    return faults(folder, [path for path, of in modules(folder).items() if of == area])


@dataclass(frozen=True)
class Outcome:
    """Whether the tests noticed a fault, how (a test, or that they hang) and after how many seconds."""

    noticed: bool
    how: str
    seconds: int


class Runner:
    """A process that has collected the tests of an area and runs them for each fault (`tests.mutate_runner`)."""

    def __init__(self, folder: Path, area: str, seconds: int | None = None) -> None:
        """Start the process. `seconds`: the time in which a test has to notice a fault."""
        self._folder = folder
        self._seconds = seconds
        tests = [path for path in AREAS[area].tests if (folder / path).exists()]
        self._command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        self._environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": MUTANTS}
        theirs, to_them = os.pipe()
        from_them, their_answers = os.pipe()
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [*self._command, "-s", "-p", "tests.mutate_runner"],
            cwd=folder,
            env={**self._environment, FAULTS: str(theirs), ANSWERS: str(their_answers)},
            pass_fds=(theirs, their_answers),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        os.close(theirs)
        os.close(their_answers)
        self._faults = os.fdopen(to_them, "w")
        self._answers = os.fdopen(from_them)

    def __enter__(self) -> Self:
        """Return the runner, which stops at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the process."""
        self._faults.close()
        self._answers.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    def run(self, fault: Fault) -> Outcome:
        """Plant the fault and run the tests until one fails.

        Raises:
            SystemExit: The tests cannot be collected, or their process died.
        """
        path = self._folder / fault.path
        before = path.read_text(encoding="utf-8")
        text = planted(before, fault)
        given = {"file": str(path), "path": fault.path, "text": text, "seconds": self._seconds}
        self._faults.write(json.dumps(given) + "\n")
        self._faults.flush()
        if not (answer := self._answers.readline()):
            self._log.seek(0)
            raise SystemExit(f"the tests cannot be run: {self._log.read()[-2000:]}")
        said, seconds = json.loads(answer)
        if said == NEW_PROCESS:
            path.write_text(text, encoding="utf-8")
            try:
                return self._in_new_process()
            finally:
                path.write_text(before, encoding="utf-8")
        return Outcome(said != NOT_NOTICED, said, seconds)

    def _in_new_process(self) -> Outcome:
        began, hangs = time.monotonic(), True
        process = subprocess.Popen(
            self._command,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            printed, _ = process.communicate(timeout=self._seconds or _LONGEST)
        except subprocess.TimeoutExpired:
            printed, hangs = "it hangs", self._seconds is None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        failed = [line for line in printed.splitlines() if line.startswith(("FAILED", "ERROR"))]
        how = (failed or printed.splitlines() or [""])[-1] if process.returncode else NOT_NOTICED
        noticed = process.returncode != 0 and (hangs or printed != "it hangs")
        return Outcome(noticed, how if noticed else NOT_NOTICED, round(time.monotonic() - began))


def _run(area: str, folder: Path, drawn: Sequence[Fault], seconds: int | None) -> list[Fault]:
    """Plant the area's faults one after the other; return those that no test noticed."""
    missed = []
    with Runner(folder, area, seconds) as runner:
        for fault in drawn:
            outcome = runner.run(fault)
            print(f"{area}: {fault}\n    {outcome.how if outcome.noticed else 'NOT NOTICED'}", flush=True)
            if not outcome.noticed:
                missed.append(fault)
    return missed


def _drawn(folder: Path, areas: Sequence[str], options: argparse.Namespace) -> dict[str, list[Fault]]:
    """The faults to plant, by area."""
    if options.total is None:
        return {area: sample(folder, faults_of(folder, area), options.each, options.seed) for area in areas}
    of = modules(folder)
    offered = faults(folder, [path for path, area in of.items() if area in areas])
    drawn: dict[str, list[Fault]] = {}
    for fault in sample(folder, offered, options.total, options.seed):
        drawn.setdefault(of[fault.path], []).append(fault)
    return dict(sorted(drawn.items()))


@contextlib.contextmanager
def _copies(count: int) -> Iterator[list[Path]]:
    """Yield copies of the last commit, which are removed at the end."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as temporary:
        folders = [Path(temporary) / f"copy{number}" for number in range(count)]
        # Some tests give up the administrator's rights, and load modules after that.
        Path(temporary).chmod(0o755)
        git = ["git", "-C", str(ROOT), "worktree"]
        try:
            for folder in folders:
                subprocess.run([*git, "add", "--quiet", "--detach", str(folder), "HEAD"], check=True)
            yield folders
        finally:
            for folder in folders:
                subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def main() -> int:
    """Run the command line; 1 where fewer than nine faults in ten were noticed."""
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=__doc__)
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"of {', '.join(AREAS)}; all when left out")
    parser.add_argument("--each", type=int, default=10, help="faults in each area (10)")
    parser.add_argument("--total", type=int, help="faults in all areas together, in place of --each")
    parser.add_argument("--jobs", type=int, default=1, help="areas that are tested at the same time (1)")
    parser.add_argument("--seconds", type=int, help="the time for a fault; one that takes longer counts as not noticed")
    parser.add_argument("--seed", type=int, default=1, help="which faults are drawn (1)")
    options = parser.parse_args()
    if unknown := set(options.areas) - set(AREAS):
        parser.error(f"no such area: {', '.join(sorted(unknown))}")
    with _copies(options.jobs) as folders:
        by_area = _drawn(folders[0], options.areas or list(AREAS), options)
        free = queue.SimpleQueue[Path]()
        for folder in folders:
            free.put(folder)

        def missed(area: str) -> int:
            folder = free.get()
            try:
                return len(_run(area, folder, by_area[area], options.seconds))
            finally:
                free.put(folder)

        planted_in_all, missed_in_all = sum(map(len, by_area.values())), 0
        with ThreadPoolExecutor(options.jobs) as pool:
            for area, number in zip(by_area, pool.map(missed, by_area), strict=True):
                drawn = len(by_area[area])
                print(f"{area}: {drawn - number} of {drawn} noticed", flush=True)
                missed_in_all += number
    share = 1 - missed_in_all / planted_in_all if planted_in_all else 1.0
    print(f"all: {planted_in_all - missed_in_all} of {planted_in_all} noticed ({share:.0%}), seed {options.seed}")
    return 0 if share >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
