"""Patterns over skills: a skill and its files are decided together, in every spelling."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.policy.full_names import parse_full_name
from aggregator.policy.patterns import PatternError, Target, parse
from aggregator.skills.uris import directories, skill_name, skill_uri

from ..policy.build import book

SEGMENTS = st.sampled_from(("acme", "billing", "refunds", "git-workflow", "pdf", "a", "café", "x%7ey"))
NAMES = st.lists(SEGMENTS, min_size=1, max_size=4).map("/".join)


def verdict(rules: dict[str, list[str]], target: Target) -> str:
    return book({"agents": {"one": rules}}).agents["one"].decide_target(target, None).verdict


def skill(name: str) -> Target:
    return Target("skill", "docs", "docs", name)


def file(uri: str, *skills: str) -> Target:
    return Target("resource", "docs", "docs", uri, skills=skills)


@given(NAMES)
def test_a_name_and_its_uri_say_the_same(name: str) -> None:
    """A name is a function of the URI of SKILL.md, and back."""
    assert skill_name(skill_uri(name)) == name
    assert directories(skill_uri(name))[-1] == name
    other = f"github://{name}"
    assert skill_name(f"{other}/SKILL.md") == other
    assert skill_uri(other) == f"{other}/SKILL.md"


@pytest.mark.parametrize(
    ("uri", "names"),
    [
        ("skill://a/b/c.md", ("a", "a/b")),
        ("skill://a/b/", ("a", "a/b")),
        ("skill://index.json", ()),
        ("file:///etc/x", ("file:///etc",)),
        ("github://o/r/SKILL.md?ref=a/b", ("github://o", "github://o/r")),
        ("urn:a/b", ()),
    ],
)
def test_the_directories_round_a_file(uri: str, names: tuple[str, ...]) -> None:
    assert directories(uri) == names


@given(NAMES, st.lists(SEGMENTS, min_size=1, max_size=3).map("/".join))
def test_a_denied_skill_is_denied_with_all_its_files_in_every_spelling(name: str, path: str) -> None:
    """No spelling of a file of a denied skill is allowed."""
    rules = {"allow": ["server:docs"], "deny": [f"skill:docs.{name}"]}
    uri = skill_uri(name).removesuffix("SKILL.md") + path
    head, _, rest = uri.partition("://")
    escaped = f"{head}://" + "".join(c if c == "/" or not c.isascii() else f"%{ord(c):02x}" for c in rest)
    slashes = f"{head}://{rest.replace('/', '//')}"
    for spelled in (uri, quote(uri, safe=":/%"), escaped, slashes, f"{uri}#x"):
        assert verdict(rules, file(spelled)) == "deny", spelled
    assert verdict(rules, skill(name)) == "deny"
    assert verdict(rules, skill(f"{name}/nested")) == "deny"


@given(NAMES)
def test_an_allowed_skill_can_be_read_and_nothing_beside_it(name: str) -> None:
    rules = {"allow": [f"skill:docs.{name}"]}
    root = skill_uri(name).removesuffix("/SKILL.md")
    assert verdict(rules, skill(name)) == "allow"
    for path in ("SKILL.md", "references/a.md", "nested/SKILL.md"):
        assert verdict(rules, file(f"{root}/{path}")) == "allow"
    assert verdict(rules, skill(f"{name}/nested")) == "deny"
    assert verdict(rules, file(f"{root}-2/SKILL.md")) == "deny"
    assert verdict(rules, file("skill://other/SKILL.md")) == "deny"
    assert verdict(rules, file("file:///etc/passwd")) == "deny"
    assert verdict(rules, Target("skill", "other", "other", name)) == "deny"


@pytest.mark.parametrize(
    ("rules", "target", "expected"),
    [
        ({"allow": ["resource:docs.*"]}, skill("git"), "allow"),
        ({"allow": ["resource:docs.skill://git/*"]}, skill("git"), "allow"),
        ({"allow": ["skill:docs.*"], "deny": ["resource:docs.skill://git/SKILL.md"]}, skill("git"), "deny"),
        ({"allow": ["server:docs"], "confirm": ["skill:docs.git"]}, file("skill://git/a.md"), "confirm"),
        ({"allow": ["skill:docs.*"]}, file("file:///a/b"), "deny"),
        ({"allow": ["skill:docs.*"]}, file("file:///a/b", "file:///a"), "allow"),
        ({"allow": ["skill:docs.acme/*"]}, file("skill://acme/references/a.md"), "allow"),
        # Of a listed skill it is known where it begins.
        ({"allow": ["skill:docs.acme/*"]}, file("skill://acme/references/a.md", "acme"), "deny"),
        ({"allow": ["server:docs"], "deny": ["skill:docs.github://o/r/*"]}, file("github://o/r/x/a.md"), "deny"),
        ({"allow": ["server:docs"], "deny": ["skill:*"]}, skill("git"), "deny"),
        ({"allow": ["server:docs"], "deny": ["skill:*"]}, file("https://a.example/x", "https://a.example"), "deny"),
        ({"allow": ["skill:docs.git"]}, Target("tool", "docs", "docs", "git"), "deny"),
        ({"allow": ["skill:docs.git"]}, Target("prompt", "docs", "docs", "git"), "deny"),
    ],
)
def test_rules_of_both_kinds_count(rules: dict[str, list[str]], target: Target, expected: str) -> None:
    assert verdict(rules, target) == expected


def test_a_full_name_is_that_of_the_skill() -> None:
    target = parse_full_name("skill:docs.acme/refunds", {"docs": "docs-server"})
    assert target == Target("skill", "docs-server", "docs", "acme/refunds")
    assert str(target) == "skill:docs.acme/refunds"
    assert target.pattern == "skill:docs.acme/refunds"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("skill:", "Write skill:* for all of them."),
        ("skil:docs.*", "Did you mean `skill:docs.*`?"),
        ("skill:docs", 'Write "skill:docs.*"'),
    ],
)
def test_what_cannot_be_a_pattern_is_told(text: str, said: str) -> None:
    with pytest.raises(PatternError, match=said.replace("*", r"\*").replace("?", r"\?")):
        parse(text)
