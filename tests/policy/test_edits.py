"""Edits of the policy files that are tried out: checked like the files, in bounded time, and never written."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from aggregator.app.policies import read_policies
from aggregator.domain.errors import OperatorError
from aggregator.policy.compare.edits import PolicyEdit
from aggregator.policy.live import LivePolicies

from .build import tool

SHOP = 'agents:\n  anna:\n    allow: ["crm.*"]\n'
CATALOG = (tool("crm.get_it"), tool("crm.create_it"))


@pytest.fixture
def live(tmp_path: Path) -> LivePolicies:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "shop.yaml").write_text(SHOP, encoding="utf-8")
    (folder / "roles.yaml").write_text("roles:\n  clerk: {allow: [time.*]}\n", encoding="utf-8")
    return read_policies(folder)


def stamps(live: LivePolicies) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in live.folder.iterdir()}


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (PolicyEdit("shop.yaml", SHOP + '    deny: ["*.create_*"]\n'), ["anna lost crm.create_it"]),
        (PolicyEdit("more.yaml", "agents: {bert: {allow: [crm.get_it]}}\n"),
         ["agent bert is new", "bert gained crm.get_it"]),
        (PolicyEdit("shop.yaml", None), ["agent anna is gone", "anna lost crm.create_it, crm.get_it"]),
        (PolicyEdit("shop.yaml", "# A comment\n" + SHOP), []),
    ],
)  # fmt: skip
def test_an_edit_shows_what_would_change_and_changes_nothing(
    live: LivePolicies, edit: PolicyEdit, said: list[str]
) -> None:
    before, rulebook, problems = stamps(live), live.rulebook, live.problems
    tried = live.try_edit(edit, CATALOG)
    assert tried.problems == ()
    assert tried.diff is not None
    assert tried.diff.lines() == said
    assert (stamps(live), live.rulebook, live.problems) == (before, rulebook, problems)
    assert not live.reload(CATALOG).changed


def test_a_mistake_is_told_with_its_line_as_of_a_file(live: LivePolicies) -> None:
    tried = live.try_edit(PolicyEdit("shop.yaml", SHOP + "    alow: [crm.get_it]\n    roles: [clark]\n"), CATALOG)
    assert (tried.rulebook, tried.diff) == (None, None)
    assert [str(problem).split("policies/")[1] for problem in tried.problems] == [
        "shop.yaml:4: agents.anna.alow: There is no key `alow` here. Did you mean `allow`?",
    ]
    schema = live.try_edit(PolicyEdit("shop.yaml", SHOP + "    arguments: {crm.get_it: {type: strin}}\n"))
    assert [problem.file.rpartition(":")[2] for problem in schema.problems] == ["4"]
    without_any = LivePolicies(live.folder / "none")
    assert without_any.try_edit(PolicyEdit("shop.yaml", SHOP), CATALOG).diff is not None


def test_the_last_file_is_not_taken_away_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(SHOP, encoding="utf-8")
    tried = read_policies(tmp_path).try_edit(PolicyEdit("shop.yaml", None), CATALOG)
    assert tried.diff is None
    assert "the last rules stay in force" in str(tried.problems[0])


@pytest.mark.parametrize("name", ["../shop.yaml", "a/b.yaml", ".hidden.yaml", "shop.txt", "", "shop.yaml\n", "x" * 200])
def test_only_a_file_of_the_folder_can_be_edited(live: LivePolicies, name: str) -> None:
    with pytest.raises(OperatorError, match=r"cannot be a policy file"):
        live.try_edit(PolicyEdit(name, SHOP))
    with pytest.raises(OperatorError, match=r"There is no policy file other\.yaml"):
        live.try_edit(PolicyEdit("other.yaml", None))


LAUGHS = "".join(f"{name}: &{name} [{','.join([f'*{last}'] * 9)}]\n" for last, name in pairwise("abcdefghi"))
CHAIN = "".join(f"  r{n}: {{roles: [r{n + 1}]}}\n" for n in range(2_000))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &a [x]\n" + LAUGHS, "The file holds more than 200,000 values."),
        ("[" * 200_000, "The file is nested more than 40 levels deep."),
        ("x" * 10 * 2**20, "The file is larger than 1 MiB."),
        ("#" * 300 * 1024, "More than 256 KiB are not tried out here."),
        ("agents:\n" + "".join(f" a{n}:\n" for n in range(20_001)), "More than 20,000 values are not tried out here."),
        ("agents: {a: {allow: [" + ",".join(['"*a*a*a*a*a*a*a*a*a*a*a*b"'] * 900) + "]}}",
         "More than 10,000 wildcards are not tried out here."),
        ("agents: {a: !!python/object/apply:os.system [id]}", "Tags are not allowed"),
        ("agents: {\ud800: {}}", "The file is not UTF-8 text."),
        ("agents: {a: {allow: [\0]}}", "The file holds a character that YAML does not allow."),
        ("roles:\n" + CHAIN + "  r2000: {}\n", "Roles inherit each other more than 50 levels deep."),
        ("roles:\n" + CHAIN + "  r2000: {roles: [r0]}\n", "Roles inherit each other in a ring: r0 > r1 > r2"),
        (json.dumps({"agents": {"a": {"arguments": {"t.x": {"pattern": "(" * 500}}}}}), "pattern"),
    ],
)  # fmt: skip
def test_hostile_texts_are_refused_in_words(live: LivePolicies, text: str, said: str) -> None:
    tried = live.try_edit(PolicyEdit("shop.yaml", text), CATALOG)
    assert tried.diff is None
    assert said in str(tried.problems[0])
    assert len(str(tried.problems[0])) < 1_000
