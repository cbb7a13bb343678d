"""Exposed names: pure, in the charset, short enough, and never two tools under one."""

import re
from collections.abc import Iterable

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from aggregator.catalog.validate import validate_tools
from aggregator.domain.names import (
    CANONICAL_LIMIT,
    DEFAULT_NAME_LIMIT,
    Style,
    canonical,
    folded,
    listed_canonical,
    listed_compatible,
    shadowed,
    spellings,
)
from aggregator.domain.text.unstorable import unstorable

from .strategies import ANY_TEXT, PREFIXES, TOOL_NAMES, server, tool

PAIRS = st.tuples(PREFIXES, TOOL_NAMES)
LIMITS = st.integers(24, 64)
_COMPATIBLE = re.compile(r"[A-Za-z0-9_-]+")
_CANONICAL = re.compile(r"[A-Za-z0-9_.-]+")


def _listed(harness: dict[str, list[str]]) -> dict[tuple[str, str], str]:
    """Return canonical names of whole servers, made as the catalog builder makes them."""
    ambiguous = shadowed(harness)
    names: dict[tuple[str, str], str] = {}
    for prefix, tools in harness.items():
        # Whatever a server is let use for names.
        config = server(prefix, invisible_characters="keep")
        records, warnings = validate_tools(
            config, [tool(name) for name in tools], ambiguous=prefix in ambiguous, name_limit=DEFAULT_NAME_LIMIT
        )
        assert not warnings
        names |= {(prefix, record.own_name): record.listed["canonical"] for record in records}
    return names


def _twins(names: Iterable[str]) -> set[str]:
    seen: set[str] = set()
    return {name for name in names if name in seen or seen.add(name)}  # type: ignore[func-returns-value]


@pytest.mark.parametrize(
    ("prefix", "own_name", "plain"),
    [
        ("github", "create_issue", "github__create_issue"),
        ("a", "b__c", "a__b__c"),
        ("a-b", "_x", "a-b___x"),
        ("s", "x" * 44, "s__" + "x" * 44),
    ],
)
def test_compatible_is_plain_where_it_can_be(prefix: str, own_name: str, plain: str) -> None:
    """Proves: F2"""
    assert listed_compatible(prefix, own_name) == plain


@pytest.mark.parametrize(
    ("prefix", "own_name"),
    [("a__b", "c"), ("a_", "b"), ("a", "b.c"), ("a", "查询"), ("a", "b c"), ("s", "x" * 45), ("a", "")],
)
def test_compatible_has_a_digest_where_the_plain_form_could_be_anothers(prefix: str, own_name: str) -> None:
    name = listed_compatible(prefix, own_name)
    if own_name:
        assert re.fullmatch(r".+_[0-9][a-z2-7]{7}", name)
    assert len(name) <= DEFAULT_NAME_LIMIT


@given(PAIRS, LIMITS)
@example(("a" * 60, "b" * 500), 24)
def test_compatible_is_what_every_host_takes(pair: tuple[str, str], limit: int) -> None:
    """Proves: F2"""
    name = listed_compatible(*pair, limit)
    assert _COMPATIBLE.fullmatch(name)
    assert len(name) <= limit
    assert listed_compatible(*pair, limit) == name


@given(PAIRS, PAIRS, LIMITS)
@example(("a", "b__c"), ("a__b", "c"), 47)
@example(("a", "_b"), ("a_", "b"), 47)
@example(("a", "b.c"), ("a", "b_c"), 47)
@example(("a", "é"), ("a", "è"), 47)
@example(("a", "x" * 200), ("a", "x" * 201), 47)
def test_compatible_is_injective(one: tuple[str, str], other: tuple[str, str], limit: int) -> None:
    """Proves: F2, B5"""
    assume(one != other)
    assert listed_compatible(*one, limit) != listed_compatible(*other, limit)


@given(PREFIXES, TOOL_NAMES, st.booleans())
def test_canonical_is_what_the_protocol_takes(prefix: str, own_name: str, ambiguous: bool) -> None:
    """Proves: F2"""
    name = listed_canonical(prefix, own_name, ambiguous=ambiguous)
    assert _CANONICAL.fullmatch(name)
    assert len(name) <= CANONICAL_LIMIT
    assert name.startswith(f"{prefix}.")
    if name == canonical(prefix, own_name):
        assert not ambiguous


# A tool whose name cannot be stored is left out.
STORABLE = TOOL_NAMES.filter(lambda name: unstorable([name]) is None)
HOUSES = st.dictionaries(PREFIXES, st.lists(STORABLE, max_size=6, unique=True), max_size=5)


@given(HOUSES)
@example({"a": ["b_c"], "a_b": ["c"]})
@example({"a": ["_b"], "a_": ["b"]})
@example({"a": ["b.c", "b_c"]})
@example({"a": ["b_c.d", "b.c_d"]})
@example({"a": ["b_c.d"], "a_b": ["c_d", "c.d"]})
def test_no_two_listed_names_become_one_when_dots_are_read_as_underscores(harness: dict[str, list[str]]) -> None:
    """Proves: F2, B5"""
    assert not _twins(map(folded, _listed(harness).values()))


@given(HOUSES)
def test_a_plain_canonical_name_stays_plain_when_nothing_resembles_it(harness: dict[str, list[str]]) -> None:
    for (prefix, own_name), name in _listed({p: t for p, t in harness.items() if "_" not in p}).items():
        if re.fullmatch(r"[A-Za-z0-9_-]{1,40}", own_name):
            assert name == f"{prefix}.{own_name}"


def test_a_tool_cannot_take_the_name_another_gets_by_its_digest() -> None:
    """The digest is public: a server may list a tool whose plain name is what a longer one is shortened to."""
    victim = "x" * 60
    forged = listed_compatible("srv", victim).removeprefix("srv__")
    records, _ = validate_tools(server(), [tool(victim), tool(forged)], ambiguous=False, name_limit=DEFAULT_NAME_LIMIT)
    for style in ("compatible", "canonical"):
        assert not _twins(record.listed[style] for record in records)


@pytest.mark.parametrize("forged", ["b.c.{}", "b_c.{}", "b.c_{}", "b_c_{}"])
def test_no_server_can_take_the_name_anothers_tool_has_by_its_digest(forged: str) -> None:
    """Nor a name that reads like it once `.` is `_`."""
    digest = _listed({"a": [], "a_b": ["c"]})["a_b", "c"].rpartition("_")[2]
    assert not _twins(map(folded, _listed({"a": [forged.format(digest)], "a_b": ["c"]}).values()))


# Two names of one server whose digests are equal; a search of a second finds such a pair.
TWINS = ("x" * 128 + "372088", "x" * 128 + "859620")


@pytest.mark.parametrize("style", ["compatible", "canonical"])
def test_two_tools_with_one_digest_are_not_listed_under_one_name(style: Style) -> None:
    """Some hosts refuse a whole list that holds a name twice."""
    records, _ = validate_tools(
        server(), [tool(name) for name in TWINS], ambiguous=False, name_limit=DEFAULT_NAME_LIMIT
    )
    assert not _twins(record.listed[style] for record in records)


@pytest.mark.parametrize(
    ("prefixes", "expected"),
    [
        ({"a", "b"}, set()),
        ({"a", "a_b"}, {"a_b"}),
        ({"a", "a_"}, {"a_"}),
        ({"a", "ab"}, set()),
        ({"a_b", "a_b_c", "c"}, {"a_b_c"}),
        ({"a-b", "a"}, set()),
    ],
)
def test_shadowed(prefixes: set[str], expected: set[str]) -> None:
    assert shadowed(prefixes) == expected


@given(st.sets(PREFIXES, max_size=6), TOOL_NAMES, TOOL_NAMES)
def test_only_a_shadowed_prefix_can_make_two_names_one(prefixes: set[str], one: str, other: str) -> None:
    for first in prefixes - shadowed(prefixes):
        for second in prefixes - shadowed(prefixes) - {first}:
            assert folded(canonical(first, one)) != folded(canonical(second, other))


@given(PREFIXES, TOOL_NAMES)
def test_every_spelling_leads_back(prefix: str, own_name: str) -> None:
    """Proves: F2"""
    assert (prefix, own_name) in spellings(f"{prefix}.{own_name}")
    assert (prefix, own_name) in spellings(f"{prefix}/{own_name}")
    assert (prefix, own_name) in spellings(f"{prefix}:{own_name}")
    if "__" not in prefix + "_":
        assert (prefix, own_name) in spellings(f"{prefix}__{own_name}")


@given(ANY_TEXT)
def test_spellings_take_any_text(name: str) -> None:
    for prefix, own_name in spellings(name):
        assert prefix
        assert own_name
        assert name.startswith(prefix)
        assert name.endswith(own_name)
