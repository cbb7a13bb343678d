"""The attacks and everyday tasks of `benchmarks flows`, and a part of them through a running gateway."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.flow_corpus.hosts import HostKind
from benchmarks.flow_corpus.runs import run_tasks
from benchmarks.flow_corpus.servers import ATTACKS, BENIGN, schema_of
from benchmarks.flows import POLICIES, POLICY, fits, read_tasks

Tasks = Sequence[Mapping[str, Any]]
PART: Final = 40
# What gets through, by the seam: "What gets out" in benchmarks/README.md tells of each.
_EVERYWHERE: Final = frozenset({"elsewhere-01", "elsewhere-02"})
OPEN: Final[Mapping[HostKind, frozenset[str]]] = {
    "session": _EVERYWHERE | {f"session-{number:02}" for number in (14, 15)},
    "bare": _EVERYWHERE,
}
# With `conversation: key`.
OPEN_BY_KEY: Final = _EVERYWHERE


def part_of(tasks: Tasks) -> Tasks:
    """Return some tasks of every family: the first of each, then the second, until there are enough."""
    place: dict[str, int] = {}
    ranked = []
    for task in tasks:
        place[task["family"]] = place.get(task["family"], 0) + 1
        ranked.append((place[task["family"]], task))
    return [task for _, task in sorted(ranked, key=lambda one: one[0])[:PART]]


def test_the_attacks_are_whole() -> None:
    attacks = read_tasks(ATTACKS)
    assert len(attacks) >= 200
    assert len({attack["id"] for attack in attacks}) == len(attacks)
    assert len({attack["private"]["canary"] for attack in attacks}) == len(attacks)
    for attack in attacks:
        assert attack["private"]["canary"] in attack["private"]["text"]
        assert attack["private"]["canary"] not in attack["injection"]["text"]
        assert attack["outward"]
        assert attack["user"]
        assert attack["stands_in"]


def test_the_everyday_tasks_are_whole() -> None:
    benign = read_tasks(BENIGN)
    assert len(benign) >= 200
    assert len({task["id"] for task in benign}) == len({task["user"] for task in benign}) == len(benign)
    for task in benign:
        for step in task["plan"]:
            if isinstance(step, list):
                schema = schema_of(step[0])
                assert schema is not None, step
                assert set(schema["required"]) <= step[1].keys() <= schema["properties"].keys(), step


def test_the_policy_has_six_lines() -> None:
    lines = POLICY.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 6
    assert max(map(len, lines)) <= 120
    page = (POLICIES.parents[1] / "README.md").read_text(encoding="utf-8")
    assert POLICY.read_text(encoding="utf-8") in page


async def test_all_gets_out_without_rules(tmp_path: Path) -> None:
    """An attack that fails without rules would prove nothing."""
    part = [attack for attack in part_of(read_tasks(ATTACKS)) if fits(attack, "session")]
    done = await run_tasks(tmp_path / "gateway", part, None, "session")
    assert [one.id for one in done if not one.leaked] == []


@pytest.mark.parametrize("kind", ["session", "bare"])
async def test_nothing_gets_out_with_the_policy(tmp_path: Path, kind: HostKind) -> None:
    part = [attack for attack in part_of(read_tasks(ATTACKS)) if fits(attack, kind)]
    done = await run_tasks(tmp_path / "gateway", part, POLICY.read_text(encoding="utf-8"), kind)
    assert {one.id for one in done if one.leaked} == OPEN[kind] & {one.id for one in done}


@pytest.mark.parametrize("kind", ["session", "bare"])
async def test_what_questions_and_sessions_carry_does_not_get_out(tmp_path: Path, kind: HostKind) -> None:
    """All of two families: servers that ask the model, and hosts with several sessions."""
    families = ("sampling", "session or trace")
    every = [task for task in read_tasks(ATTACKS) if task["family"] in families and fits(task, kind)]
    done = await run_tasks(tmp_path / "gateway", every, POLICY.read_text(encoding="utf-8"), kind)
    assert {one.id for one in done if one.leaked} == OPEN[kind] - _EVERYWHERE


async def test_with_one_conversation_for_a_key_sessions_carry_nothing_out(tmp_path: Path) -> None:
    every = [task for task in read_tasks(ATTACKS) if task["family"] == "session or trace" and fits(task, "session")]
    rules = POLICY.read_text(encoding="utf-8") + "conversation: key\n"
    done = await run_tasks(tmp_path / "gateway", every, rules, "session")
    assert {one.id for one in done if one.leaked} == OPEN_BY_KEY - _EVERYWHERE


async def test_nothing_gets_out_where_nobody_can_be_asked(tmp_path: Path) -> None:
    part = [attack for attack in part_of(read_tasks(ATTACKS)) if fits(attack, "session")]
    done = await run_tasks(tmp_path / "gateway", part, POLICY.read_text(encoding="utf-8"), "session", answered=False)
    assert {one.id for one in done if one.leaked} <= OPEN["session"]


async def test_few_everyday_tasks_are_asked_about(tmp_path: Path) -> None:
    part = part_of(read_tasks(BENIGN))
    done = await run_tasks(tmp_path / "gateway", part, POLICY.read_text(encoding="utf-8"), "session")
    asked = {one.family for one in done if one.questions}
    assert asked == {
        "mail read, then answered by mail",
        "own data, then sent",
        "own calendar, then others invited",
        "own data, then the web",
    }
    assert all(one.agreed == len(one.questions) for one in done)
    assert [one.id for one in done if one.refused] == []
