"""Several files, read from a folder and swapped whole."""

import subprocess
import sys
from pathlib import Path

import pytest

from aggregator.app.policies import read_policies
from aggregator.app.reload.policy_reload import signature
from aggregator.domain.problems import Problem
from aggregator.policy.files import folder as files
from aggregator.policy.files.checking import check
from aggregator.policy.files.folder import LARGEST, PolicySource, read_folder
from aggregator.policy.live import BROKEN_EFFECT, CLOSED_EFFECT, LivePolicies

from .build import book, checked, errors, tool

OPEN = "agents:\n  a: {allow: [t.*]}\n"


def test_lists_are_joined_and_values_that_differ_are_errors() -> None:
    made = book("agents:\n  a: {allow: [t.x], roles: [r], keys: [k:h]}\n", "agents:\n  a:\n    allow: [t.y, t.x]\n"
                "    keys: [k:h, l:h]\nroles:\n  r: {deny: [t.z]}\n")  # fmt: skip
    assert [str(rule) for rule in made.documents.agents["a"].rules] == ['allow "t.x"', 'allow "t.y"']
    assert made.documents.agents["a"].rules[1].place == ("policies/2.yaml", 3)
    assert [key.key.key_id for key in made.keys] == ["k", "l"]


@pytest.mark.parametrize(
    ("one", "other", "where"),
    [
        ("    denials: hidden\n", "    denials: explicit\n", "denials"),
        ("    bindings: {p: x}\n", "    bindings: {p: y}\n", "bindings.p"),
        (
            "    annotations: {destructive: deny}\n",
            "    annotations: {destructive: allow}\n",
            "annotations.destructive",
        ),
        ("    limits: {t.x: {concurrent: 1}}\n", "    limits: {t.x: {concurrent: 2}}\n", 'limits["t.x"].concurrent'),
        ("    arguments: {t.x: {required: [a]}}\n", "    arguments: {t.x: {required: [b]}}\n", 'arguments["t.x"]'),
    ],
)
def test_both_places_are_named(one: str, other: str, where: str) -> None:
    expected = (
        f"error: policies/2.yaml:3: agents.a.{where}: This differs from what policies/1.yaml:3 says. "
        "Say it in one place, or the same in both."
    )
    assert errors(f"agents:\n  a:\n{one}", f"agents:\n  a:\n{other}") == [expected]
    assert checked(f"agents:\n  a:\n{one}", f"agents:\n  a:\n{one}").documents is not None


def test_limits_of_one_pattern_are_joined_by_kind() -> None:
    made = book("agents:\n  a: {limits: {t.x: {concurrent: 1}}}\n", "agents:\n  a: {limits: {t.x: {per_minute: 2}}}\n")
    counted = made.agents["a"].limits(tool("t.x")).counted
    assert [(limit.kind, limit.most, limit.source) for limit in counted] == [
        ("concurrent", 1, "policies/1.yaml:2"),
        ("per_minute", 2, "policies/2.yaml:2"),
    ]


def test_an_empty_file_is_a_file() -> None:
    made = checked("# nothing yet\n")
    assert made.documents is not None
    assert [str(problem) for problem in made.problems] == [
        "warning: policies/1.yaml:1: The file holds nothing. Write `agents:` with at least one, or remove the file: "
        "as long as it is there, nothing is open."
    ]


def test_what_counts_as_a_policy_file(tmp_path: Path) -> None:
    counted = ["a.yaml", "b.yml", "h.YAML", "i.Yml"]
    for name in (*counted, ".c.yaml", "d.yaml~", "e.json", "README.md", "notes.txt", "cases/f.yaml", "example/g.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(OPEN, encoding="utf-8")
    sources, problems = read_folder(tmp_path)
    assert [Path(source.file).name for source in sources] == counted
    assert problems == []
    assert read_folder(tmp_path / "none") == ([], [])


def test_a_policy_file_whose_name_got_an_ending_opens_nothing(tmp_path: Path) -> None:
    """Editors of Windows save `main.yaml` as `main.yaml.txt`, which the system shows as `main.yaml`."""
    (tmp_path / "main.yaml.txt").write_text(OPEN, encoding="utf-8")
    live = LivePolicies(tmp_path)
    assert live.closed
    assert [str(problem) for problem in live.problems] == [
        f"error: {tmp_path / 'main.yaml.txt'}: The file is not read: names of policy files end in .yaml or .yml. "
        "Rename it to main.yaml, or remove it."
    ]
    before = signature(tmp_path)
    (tmp_path / "main.yaml.txt").rename(tmp_path / "main.yaml")
    assert signature(tmp_path) != before
    assert live.reload().changed
    assert not live.closed
    (tmp_path / "more.YML.TXT").write_text(OPEN, encoding="utf-8")
    assert not live.reload().changed
    assert [problem.severity for problem in live.problems] == ["warning"]
    assert not live.broken


def test_a_folder_behind_a_link_that_leads_nowhere_is_a_problem(tmp_path: Path) -> None:
    """A disk that is not mounted does not allow everything."""
    link = tmp_path / "policies"
    link.symlink_to(tmp_path / "disk")
    sources, problems = read_folder(link)
    assert sources == []
    assert [(one.file, one.severity) for one in problems] == [(str(link), "error")]
    assert "link that leads nowhere" in problems[0].message
    (tmp_path / "disk").mkdir()
    assert read_folder(link) == ([], [])


def test_a_named_folder_that_is_missing_allows_nothing(tmp_path: Path) -> None:
    """F6: a disk that is not mounted, or a mistake in `policies`. The usual folder is missing until it is needed."""
    folder = tmp_path / "policies"
    assert not LivePolicies(folder).broken
    live = LivePolicies(folder, named=True)
    assert live.closed
    assert [str(problem) for problem in live.problems] == [
        f"error: {folder}: The folder, which `policies` names, does not exist. Mount it, correct `policies`, or run "
        "`aggregator policy init` for a first file."
    ]
    before = signature(folder)
    folder.mkdir()
    assert not live.reload().changed
    assert live.closed
    (folder / "main.yaml").write_text(OPEN, encoding="utf-8")
    assert signature(folder) != before
    assert live.reload().changed
    assert not live.closed
    in_force = live.rulebook
    (folder / "main.yaml").unlink()
    folder.rmdir()
    assert not live.reload().changed
    assert (live.rulebook, live.effect, live.broken) == (in_force, BROKEN_EFFECT, True)


def test_a_file_in_place_of_the_folder_is_no_matter_of_permissions(tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(OPEN, encoding="utf-8")
    sources, problems = read_folder(file)
    assert sources == []
    assert [str(one) for one in problems] == [
        f"error: {file}: It is no folder. Name the folder that has the policy files."
    ]


def test_what_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "big.yaml").write_bytes(b"#" * (LARGEST + 1))
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "latin.yaml").write_bytes(b"# \xe4")
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbf" + OPEN.encode())
    said = [str(problem) for problem in check(*read_folder(tmp_path)).problems]
    assert said == [
        f"error: {tmp_path}/big.yaml: The file is larger than 1 MiB. Split it; all files count together.",
        f"error: {tmp_path}/folder.yaml: The file cannot be read: it is a folder, and an ordinary file is "
        "wanted. Remove it from this folder, or put an ordinary file there.",
        f"error: {tmp_path}/latin.yaml: The file is not UTF-8 text. Save it as UTF-8.",
    ]


def test_a_folder_that_changes_while_it_is_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = tmp_path / "1.yaml", tmp_path / "2.yaml"
    one.write_text(OPEN, encoding="utf-8")
    read = files._read

    def saving(path: Path, problems: list[Problem]) -> PolicySource | None:
        if not two.exists():
            two.write_text("roles: {}", encoding="utf-8")
        return read(path, problems)

    monkeypatch.setattr(files, "_read", saving)
    assert [Path(source.file).name for source in read_folder(tmp_path)[0]] == ["1.yaml", "2.yaml"]


def test_the_revision_is_that_of_the_contents() -> None:
    one, two = PolicySource("p/1.yaml", OPEN), PolicySource("p/2.yaml", "roles: {}\n")
    assert files.revision([one, two]) == files.revision([two, one])
    assert files.revision([one]) != files.revision([one, two])
    assert files.revision([one]) != files.revision([PolicySource("p/1.yaml", OPEN + "#")])
    assert files.revision([one]) == files.revision([PolicySource("elsewhere/1.yaml", OPEN)])


def test_line_ends_and_a_mark_of_windows_change_no_revision(tmp_path: Path) -> None:
    """A checkout on Windows has other line ends than those of the replicas elsewhere."""
    read = []
    for name, content in (("a", OPEN.encode()), ("b", b"\xef\xbb\xbf" + OPEN.replace("\n", "\r\n").encode())):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "1.yaml").write_bytes(content)
        sources, problems = read_folder(folder)
        assert not problems
        read.append(files.revision(sources))
    assert read[0] == read[1]


def test_live_swaps_whole_or_not_at_all(tmp_path: Path) -> None:
    folder, tools = tmp_path / "policies", [tool("t.x"), tool("u.x")]
    live = LivePolicies(folder)
    assert live.rulebook is None
    assert live.reload(tools) == (live.reload(tools))
    assert (live.reload(tools).problems, live.broken) == ((), False), "there are none to vanish"
    folder.mkdir()
    (folder / "a.yaml").write_text(OPEN, encoding="utf-8")
    first = live.reload(tools)
    assert (first.changed, first.problems) == (True, ())
    assert first.diff.lines() == ["agent a is new", "a gained t.x"]
    before = live.rulebook
    assert before is not None
    assert [source.text for source in live.in_force] == [OPEN]
    assert not live.reload(tools).changed
    assert live.rulebook is before

    (folder / "b.yaml").write_text("agents:\n  a: {alow: [u.*]}\n", encoding="utf-8")
    broken = live.reload(tools)
    assert not broken.changed
    assert live.broken
    assert live.effect == BROKEN_EFFECT
    assert live.rulebook is before
    assert (len(live.sources), [source.text for source in live.in_force]) == (2, [OPEN])
    assert str(broken.problems[0]).startswith(f"error: {folder}/b.yaml:2: agents.a.alow: ")

    (folder / "b.yaml").write_text("agents:\n  a: {allow: [u.*], deny: [t.x]}\n  b: {}\n", encoding="utf-8")
    mended = live.reload(tools)
    assert mended.changed
    assert not live.broken
    assert live.in_force == live.sources
    assert ["agents.b" in str(warning) for warning in live.warnings] == [True]
    assert mended.diff.lines() == ["agent b is new", "a lost t.x", "a gained u.x"]
    assert mended.diff.affected == ("a", "b")
    assert before.agents["a"].decide(tools[0], trusted=False).visible


def test_rules_never_give_way_to_none(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(OPEN, encoding="utf-8")
    live = LivePolicies(tmp_path)
    before = live.rulebook
    (tmp_path / "a.yaml").unlink()
    gone = live.reload()
    assert not gone.changed
    assert live.broken
    assert live.rulebook is before
    assert "the last rules stay in force" in str(gone.problems[0])


def test_what_is_broken_at_the_start_allows_nobody_anything(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("agents: [", encoding="utf-8")
    live = LivePolicies(tmp_path)
    assert live.broken
    assert live.closed
    assert live.rulebook is not None
    assert live.rulebook.for_agent("local") is None
    assert live.effect == CLOSED_EFFECT
    (tmp_path / "a.yaml").write_text(OPEN, encoding="utf-8")
    assert live.reload().changed
    assert not live.broken


def test_a_schema_that_cannot_be_compiled_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("agents:\n  a:\n    arguments:\n      t.x: {required: [a]}\n", encoding="utf-8")
    live = LivePolicies(tmp_path, lambda schema: "It is not liked.")
    (said,) = map(str, live.problems)
    assert said.endswith('a.yaml:4: agents.a.arguments["t.x"]: It is not liked. Correct the schema.')
    (tmp_path / "a.yaml").write_text("agents: {a: {arguments: {t.x: {$ref: '#/$defs/no'}}}}\n", encoding="utf-8")
    (said,) = map(str, read_policies(tmp_path).problems)
    nowhere = "the reference at /$ref leads nowhere: '#/$defs/no'"
    assert said.endswith(f't.x"]: The schema cannot be used: {nowhere}. Correct the schema.')


def test_yaml_is_loaded_only_for_a_file() -> None:
    code = (
        "import sys; from pathlib import Path; from aggregator.policy.live import LivePolicies; "
        "LivePolicies(Path('/nowhere')); print('yaml' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "False"
