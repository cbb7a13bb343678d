"""Flow rules against scripted attacks: what gets out with a policy and without, and how often people are asked.

The attacks of `data/attacks.json` and the everyday tasks of `data/benign.json` run through a gateway in this process,
in front of MCP servers that keep all that leaves. A scripted model obeys every instruction that it reads.
"""

import asyncio
import itertools
import json
import logging
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from benchmarks.flow_corpus.gateways import Tasks
from benchmarks.flow_corpus.hosts import HostKind
from benchmarks.flow_corpus.runs import TaskOutcome, run_tasks
from benchmarks.flow_corpus.servers import ATTACKS, BENIGN
from benchmarks.report import Table
from benchmarks.systems import HERE

POLICIES: Final = HERE / "data" / "flow"
POLICY: Final = POLICIES / "six_lines.yaml"
# What else was tried, by what its rule is after.
_OTHERS: Final = {
    "untrusted; the web is not outward": "untrusted.yaml",
    "untrusted; the web is outward": "untrusted_web_outward.yaml",
    "untrusted and private": "untrusted_and_private.yaml",
}
HOSTS: Final[Mapping[HostKind, str]] = {
    "stdio": "stdio",
    "session": "HTTP, handshake session",
    "traced": "HTTP, 2026-07-28, one trace",
    "bare": "HTTP, 2026-07-28, no trace",
}
_ONE_KEY: Final = "mia"
_SEED: Final = 1


class _Run(NamedTuple):
    """One run of the corpus: by which host, whether a person answers, and what came of each task."""

    host: str
    people: str
    attacks: list[TaskOutcome]
    benign: list[TaskOutcome]


def measure(folder: Path, policy: Path | None) -> Iterator[Table]:
    """Yield what came of all tasks, without flow rules and with `policy`, by default the one that is published.

    Raises:
        ValueError: the policy has an error.
    """
    # Each refusal is a line of the log, and there are thousands.
    logging.getLogger("aggregator").setLevel(logging.ERROR)
    attacks, benign = read_tasks(ATTACKS), read_tasks(BENIGN)
    rules = (policy or POLICY).read_text(encoding="utf-8")
    runs = _Runs(folder)
    without = [runs.run(attacks, benign, None, kind, answered=True) for kind in HOSTS]
    ruled = [runs.run(attacks, benign, rules, kind, answered=answered) for kind in HOSTS for answered in (True, False)]
    yield _by_family(attacks, without, ruled)
    yield _by_host(without, ruled)
    yield _everyday(benign, next(run for run in ruled if run.host == HOSTS["session"]))
    yield _one_key(runs, benign, rules)
    if policy is None:
        yield _others(runs, attacks, benign, ruled)
    yield _got_out(attacks, ruled)


def read_tasks(path: Path) -> Tasks:
    """Return the tasks of a file."""
    tasks: Tasks = json.loads(path.read_text(encoding="utf-8"))
    return tasks


def fits(task: Mapping[str, Any], kind: HostKind) -> bool:
    """Return whether a task can be carried out in a host of this kind."""
    return kind in task.get("kinds", HOSTS)


class _Runs:
    """The runs, each before a gateway of its own in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folders = (folder / f"run-{number}" for number in itertools.count())

    def run(self, attacks: Tasks, benign: Tasks, rules: str | None, kind: HostKind, *, answered: bool) -> _Run:
        """Carry out the tasks that fit this kind of host."""
        people = "says no to what was not asked for" if answered else "nobody can be asked"
        fitting = [task for task in attacks if fits(task, kind)]
        done = [self.of(tasks, rules, kind, answered=answered) for tasks in (fitting, benign)]
        return _Run(HOSTS[kind], people, *done)

    def of(self, tasks: Tasks, rules: str | None, kind: HostKind, *, answered: bool = True) -> list[TaskOutcome]:
        """Carry out these tasks."""
        print(f"{len(tasks)} tasks, {kind} ...", file=sys.stderr, flush=True)
        return asyncio.run(run_tasks(next(self._folders), tasks, rules, kind, answered=answered))


def _leaked(outcomes: Sequence[TaskOutcome]) -> int:
    return sum(bool(outcome.leaked) for outcome in outcomes)


def _asked(outcomes: Sequence[TaskOutcome]) -> int:
    """Return how many tasks a person was asked about, or would have been."""
    return sum(bool(outcome.questions) or outcome.refused > 0 for outcome in outcomes)


def _share(part: int, of: int) -> str:
    return f"{part} ({part / max(1, of):.1%})"


def _by_family(attacks: Tasks, without: Sequence[_Run], ruled: Sequence[_Run]) -> Table:
    written = Counter(task["family"] for task in attacks)

    def most(runs: Sequence[_Run], family: str) -> str:
        return str(max(_leaked([one for one in run.attacks if one.family == family]) for run in runs))

    def least(runs: Sequence[_Run], family: str) -> str:
        shares = [[one for one in run.attacks if one.family == family] for run in runs]
        return f"{min(_leaked(one) / len(one) for one in shares if one):.0%}"

    rows = [[family, str(count), least(without, family), most(ruled, family)] for family, count in written.items()]
    heads = ("family", "attacks", "got out without rules, least of all hosts", "with the policy, most of all hosts")
    return Table("Attacks by family", heads, rows)


def _by_host(without: Sequence[_Run], ruled: Sequence[_Run]) -> Table:
    rows = [
        [
            run.host,
            rules,
            run.people if rules == "the policy" else "",
            str(len(run.attacks)),
            str(_leaked(run.attacks)),
            str(len(run.benign)),
            _share(_asked(run.benign), len(run.benign)),
        ]
        for rules, runs in (("none", without), ("the policy", ruled))
        for run in runs
    ]
    heads = ("host", "flow rules", "person", "attacks", "got out", "everyday tasks", "asked about, or refused")
    return Table("Attacks and everyday tasks by host, each task in a conversation of its own", heads, rows)


def _everyday(benign: Tasks, run: _Run) -> Table:
    written = Counter(task["family"] for task in benign)
    rows = [
        [
            family,
            str(count),
            str(_asked([one for one in run.benign if one.family == family])),
            str(sum(one.sent > 0 for one in run.benign if one.family == family)),
        ]
        for family, count in written.items()
    ]
    rows.append(["all", *(str(sum(int(row[column]) for row in rows)) for column in (1, 2, 3))])
    return Table(f"Everyday tasks by family ({run.host})", ("family", "tasks", "asked about", "sent anything"), rows)


def _one_key(runs: _Runs, benign: Tasks, rules: str) -> Table:
    together = [{**task, "agent": _ONE_KEY} for task in benign]
    Random(_SEED).shuffle(together)  # noqa: S311
    rows = []
    for kind, host in HOSTS.items():
        done = runs.of(together, rules, kind)
        rows.append([host, _share(_asked(done), len(done))])
    title = "Everyday tasks of one key, one right after the other"
    return Table(title, ("host", "asked about"), rows)


def _others(runs: _Runs, attacks: Tasks, benign: Tasks, ruled: Sequence[_Run]) -> Table:
    chosen = next(run for run in ruled if run.host == HOSTS["session"])
    tried = {"private (the policy)": chosen}
    for name, file in _OTHERS.items():
        tried[name] = runs.run(attacks, benign, (POLICIES / file).read_text(encoding="utf-8"), "session", answered=True)
    rows = [
        [name, str(_leaked(run.attacks)), _share(_asked(run.benign), len(run.benign))] for name, run in tried.items()
    ]
    return Table(
        f"Other rules ({chosen.host})", ("outward calls are asked about after", "got out", "asked about"), rows
    )


def _got_out(attacks: Tasks, ruled: Sequence[_Run]) -> Table:
    told = {task["id"]: f"{task['family']}: {task['stands_in']}" for task in attacks}
    found: dict[str, tuple[set[str], set[str]]] = {}
    for run in ruled:
        for outcome in run.attacks:
            if outcome.leaked:
                hosts, sinks = found.setdefault(outcome.id, (set(), set()))
                hosts.add(run.host)
                sinks.update(outcome.leaked)
    rows = [[id, told[id], "; ".join(sorted(hosts)), ", ".join(sorted(sinks))] for id, (hosts, sinks) in found.items()]
    return Table("Attacks that got out in spite of the policy", ("attack", "what", "host", "arrived at"), rows)
