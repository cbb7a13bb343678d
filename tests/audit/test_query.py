"""The language of the search for calls: what each part means, and that no text is refused."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.storage.audit.past_times import moment_text
from aggregator.storage.audit.query import (
    KEYS,
    PARTS,
    Bound,
    CallQuery,
    SearchWord,
    Term,
    parse,
    with_term,
)

NOW: Final = 1_800_000_000.0
VALUES = st.text(st.characters(exclude_characters='"', exclude_categories=("Cs", "Z", "C")), min_size=1, max_size=30)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", CallQuery()),
        ("agent:shop,desk -status:ok", CallQuery((Term("agent", ("shop", "desk")), Term("status", ("ok",), (), True)))),
        ('tool:crm.*,"a*"', CallQuery((Term("tool", ("a*",), ("crm.*",)),))),
        ("status:failed", CallQuery((Term("status", ("error", "timeout", "unavailable", "interrupted")),))),
        (
            'agent:"a b",c "since:1h" -x',
            CallQuery((Term("agent", ("a b", "c")),), (SearchWord("since:1h"), SearchWord("x", True))),
        ),
        ("took:>1s -size:<=2KiB", CallQuery((), (), (Bound("took", ">", 1), Bound("size", "<=", 2048, True)))),
        ("took:>=1.5ms size:<3kb", CallQuery((), (), (Bound("took", ">=", 0.0015), Bound("size", "<", 3000)))),
        ("since:1h until:30m", CallQuery(since=NOW - 3600, until=NOW - 1800)),
        ("-", CallQuery((), (SearchWord("-"),))),
        ("https://x", CallQuery((), (SearchWord("https://x"),))),
    ],
)
def test_what_is_asked_for(text: str, found: CallQuery) -> None:
    """E13: a space is and, a comma or, a minus not; words without a key are words."""
    assert parse(text, NOW) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agnet:shop", "There is no key `agnet:`. Did you mean `agent:`?"),
        ("xyzzy:1", "There is no key `xyzzy:`. There are agent,"),
        ("status:denyed", "There is no status `denyed`. Did you mean `denied`?"),
        ("took:1s", "`took:1s` is no bound. Write took:>1s"),
        ("took:>1lightyear", "is no bound"),
        ("size:>", "is no bound"),
        ("since:soon", "'soon' is no time"),
        ("-since:1h", "is no time"),
        ("agent:", "`agent:` has no value."),
    ],
)
def test_a_mistake_is_told_and_the_rest_counts(text: str, said: str) -> None:
    """E13: a wrong key names the nearest, and the rows of the other parts stay."""
    found = parse(f"{text} tool:crm.*", NOW)
    assert len(found.problems) == 1
    assert said in found.problems[0]
    assert found.terms == (Term("tool", (), ("crm.*",)),)


@given(
    st.text(max_size=1500)
    | st.lists(st.sampled_from([*(f"{key}:" for key in KEYS), "-", '"', ",", " ", ">", "1h", "ok"])).map("".join)
)
def test_any_text_is_a_query(text: str) -> None:
    """E13: whatever is written, there is an answer of a bounded size."""
    found = parse(text, NOW)
    assert len(found.terms) + len(found.words) + len(found.bounds) <= PARTS
    assert all(len(problem) < 300 for problem in found.problems)


@given(st.text(max_size=200), st.sampled_from(["agent", "tool", "rule", "conversation"]), VALUES)
def test_a_link_asks_for_just_that_value(text: str, key: str, value: str) -> None:
    """E13: whatever the text was, the value is in place of what the key had."""
    replaced = with_term(text, key, value)
    terms = [term for term in parse(replaced, NOW).terms if term.key == key]
    if len(parse(replaced, NOW).problems) == 0 and replaced.count('"') % 2 == 0:
        assert [term.values for term in terms] == [(value,)]
    assert [t for t in parse(with_term(replaced, key, None), NOW).terms if t.key == key] == []


@given(st.integers(0, 4_000_000_000))
def test_a_time_is_written_as_it_is_read(at: int) -> None:
    assert parse(f"since:{moment_text(at)}", NOW).since == at
