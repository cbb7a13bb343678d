"""What decides without waiting: templates, owners of URIs, how long a result holds, what a change is about."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.catalog.items import items
from aggregator.catalog.resources import ItemCatalog
from aggregator.catalog.templates import fits, leads_anywhere
from aggregator.domain.freshness import Freshness, least, said
from aggregator.domain.names import DEFAULT_NAME_LIMIT
from aggregator.domain.records import ItemKind, ItemRecord
from aggregator.gateway.views.instructions import brief
from aggregator.upstream.lists.subscriptions import affected
from tests.peers.toolbox import Json
from tests.unit.strategies import server


@pytest.mark.parametrize(
    ("template", "uri", "expected"),
    [
        ("https://a/{x}", "https://a/1", True),
        ("https://a/{x}", "https://a/", True),
        ("https://a/{x}", "https://a/1/2", False),
        ("https://a/{+x}", "https://a/1/2", True),
        ("https://a{/x*}", "https://a/1/2", True),
        ("https://a/{x}/b", "https://a/1/b", True),
        ("https://a/{x}/b", "https://a/1/c", False),
        ("https://a/{x}/b", "https://a/1/2/b", False),
        ("https://a/{x}{?q,r}", "https://a/1?q=2&r=3", True),
        ("https://a/{x}-{y}.txt", "https://a/1-2.txt", True),
        ("https://a/{x}-{y}.txt", "https://a/12.txt", False),
        ("https://a/b", "https://a/b", True),
        ("https://a/b", "https://a/bc", False),
        ("https://a/{x", "https://a/{x", True),
    ],
)
def test_whether_a_uri_fits_a_template(template: str, uri: str, expected: bool) -> None:
    assert fits(template, uri) is expected


@given(st.lists(st.tuples(st.sampled_from(["", "+", "/", "?"]), st.text("ab/.-", max_size=4)), max_size=6), st.data())
def test_an_expansion_fits(parts: list[tuple[str, str]], data: Any) -> None:
    """Whatever simple values stand where the expressions were."""
    template, uri = "https://host/", "https://host/"
    for operator, literal in parts:
        template += f"{{{operator}v}}{literal}"
        uri += f"{data.draw(st.text('xyz', max_size=3))}{literal}"
    assert fits(template, uri) or "/" in "".join(literal for _, literal in parts)


def records(prefix: str, kind: ItemKind, *own: str) -> tuple[ItemRecord, ...]:
    field = {"resource": "uri", "template": "uriTemplate", "prompt": "name"}[kind]
    definitions: list[Json] = [{field: name} for name in own]
    return items(server(prefix), kind, definitions, ambiguous=False, name_limit=DEFAULT_NAME_LIMIT)[0]


def test_two_servers_with_one_https_uri() -> None:
    """The first in config order has it as it is; the other's is listed under a spelling that says whose it is."""
    uri = "https://example.com/a"
    one, two = records("one", "resource", uri), records("two", "resource", uri, "file:///b")
    offer = ItemCatalog((*one, *two))
    assert [record.listed["canonical"] for record in offer.resources.records] == [
        uri,
        f"mcp://two/{uri}",
        "file://two//b",
    ]
    assert offer.listed(uri) == one[0]
    other = offer.listed(f"mcp://two/{uri}")
    assert other is not None
    assert (other.server, other.own_name) == ("two", uri)
    alone = ItemCatalog(item for item in offer.items if item.server == "two")
    assert [record.listed["canonical"] for record in alone.resources.records] == [uri, "file://two//b"]
    assert len(offer.resources.page("canonical", None)[0])


def test_a_template_that_stays_as_it_is_owns_what_fits_it() -> None:
    """`https:` URIs name no server: the first template in config order counts; others are found by their name."""
    one = records("one", "template", "https://example.com/{+path}", "demo://x/{id}")
    two = records("two", "template", "https://example.com/docs/{page}", "https://other.example/{page}")
    offer = ItemCatalog((*one, *two))
    assert offer.matching_template("https://example.com/docs/a") == one[0]
    assert offer.matching_template("https://other.example/a") == two[1]
    assert offer.matching_template("https://nobody.example/a") is None
    assert offer.matching_template("demo://one/x/1") is None, "that one says whose it is"


@pytest.mark.parametrize(
    ("template", "anywhere"),
    [
        ("https://{+url}", True),
        ("https://{host}/a", True),
        ("https://a.{domain}/", True),
        ("https:{+rest}", True),
        ("HTTP://{x}", True),
        ("{+url}", True),
        ("{scheme}://a/b", True),
        ("https://example.com/{+path}", False),
        ("https://example.com?{+query}", False),
        ("demo://{id}", False),
        ("urn:{+rest}", False),
        ("https://example.com/", False),
    ],
)
def test_what_leads_anywhere_takes_nothing(template: str, anywhere: bool) -> None:
    """A template that leaves the host or scheme open is no reason to send its server what somebody wants to read."""
    assert leads_anywhere(template) is anywhere
    found = records("one", "template", template)
    assert [record.takes_all for record in found] == [anywhere]
    offer = ItemCatalog(found)
    uri = "https://secret.example/a?token=1"
    assert offer.matching_template(uri) is None
    assert offer.sole_match(uri) is None
    trusted = items(
        server("one", trusted=True), "template", [{"uriTemplate": template}], ambiguous=False, name_limit=47
    )[0]
    assert not trusted[0].takes_all
    if template == "https://{+url}":
        assert ItemCatalog(trusted).matching_template(uri) == trusted[0]
    if template == "{+url}":
        assert ItemCatalog(trusted).sole_match(uri) == trusted[0]


def test_a_servers_own_uri_means_it_where_nobody_else_has_it() -> None:
    """As it stands in texts; what two servers have in common says nothing."""
    one = records("one", "resource", "file:///a", "file:///b"), records("one", "template", "demo://x/{id}")
    two = records("two", "resource", "file:///b"), records("two", "template", "demo://y/{id}", "demo://z/{id}")
    three = records("three", "template", "demo://z/{id}")
    offer = ItemCatalog((*one[0], *one[1], *two[0], *two[1], *three))
    assert offer.sole_match("file:///a") == one[0][0]
    assert offer.sole_match("file:///b") is None
    assert offer.sole_match("demo://y/7") == two[1][0]
    assert offer.sole_match("demo://z/7") is None
    assert offer.sole_match("demo://nobody/7") is None


@pytest.mark.parametrize(
    "definition",
    [None, 7, [], {}, {"uri": None}, {"uri": 7}, {"uri": ""}],
)
def test_a_resource_that_cannot_be_shown_costs_itself(definition: Any) -> None:
    found, warnings = items(
        server("s"), "resource", [definition, {"uri": "a:b"}, {"uri": "a:b"}], ambiguous=False, name_limit=47
    )
    assert [one.own_name for one in found] == ["a:b"]
    assert len(warnings) == 2


def test_a_bottomless_definition_costs_itself() -> None:
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    found, warnings = items(
        server("s"), "prompt", [{"name": "a", "x": deep}, {"name": "b"}], ambiguous=False, name_limit=47
    )
    assert [one.own_name for one in found] == ["b"]
    assert "levels deep" in warnings[0]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({}, None),
        ({"ttlMs": 5, "cacheScope": "public"}, Freshness(5, public=True)),
        ({"ttlMs": 5}, Freshness(5)),
        ({"cacheScope": "public"}, Freshness(0, public=True)),
        ({"ttlMs": -5, "cacheScope": "private"}, Freshness(0)),
        ({"ttlMs": True}, Freshness(0)),
        ({"ttlMs": "9"}, Freshness(0)),
        ({"ttlMs": float("nan")}, Freshness(0)),
        ({"ttlMs": float("inf")}, Freshness(86_400_000)),
        ({"ttlMs": 2.9, "cacheScope": "shared"}, Freshness(2)),
    ],
)
def test_what_a_result_says_of_itself(result: Json, expected: Freshness | None) -> None:
    """Absent is private, and negative is nothing (S/server/utilities/caching)."""
    assert said(result) == expected


freshness = st.builds(Freshness, st.integers(0, 10**6), st.booleans())


@given(st.lists(freshness, min_size=1, max_size=5), st.floats(0, 2_000))
def test_together_the_least_counts(parts: list[Freshness], age: float) -> None:
    together = least(parts)
    assert together.ttl == min(part.ttl for part in parts)
    assert together.public == all(part.public for part in parts)
    assert 0 <= together.after(age).ttl <= together.ttl
    assert together.after(age).public == together.public


@pytest.mark.parametrize(
    ("uri", "alone", "expected"),
    [
        ("file:///a", False, ["file:///a"]),
        ("file:///a/b", False, ["file:///a"]),
        ("file:///a?v=2", False, ["file:///a"]),
        ("file:///ab", False, []),
        ("file:///dir/x", False, ["file:///dir/"]),
        ("other:thing", False, []),
    ],
)
def test_what_a_change_is_about(uri: str, alone: bool, expected: list[str]) -> None:
    """A change may name a part of what was asked for (S/server/resources, Subscriptions)."""
    assert affected(["file:///a", "file:///dir/"], uri, alone=alone) == expected


def test_a_change_on_a_stream_for_one_resource_is_about_that() -> None:
    assert affected(["file:///a"], "other:thing", alone=True) == ["file:///a"]
    assert affected(["file:///a"], "other:thing", alone=False) == []
    assert affected(["file:///a", "b:c"], "other:thing", alone=True) == []


@pytest.mark.parametrize(
    ("words", "most", "expected"),
    [
        ("Short.", 40, "Short."),
        ("  Two\n\n lines\tand\x1b[31m more. ", 40, "Two lines and[31m more."),
        ("First one. Second one is too long for this.", 20, "First one."),
        ("Version 3.14 is what counts here. More.", 20, "Version 3.14 is…"),
        ("第一句。第二句很长很长很长。", 6, "第一句。"),
        ("x" * 50, 10, "x" * 9 + "…"),
    ],
)
def test_the_beginning_of_what_a_server_says(words: str, most: int, expected: str) -> None:
    assert brief(words, most) == expected


@given(st.text(max_size=600), st.integers(10, 100))
def test_it_is_one_line_and_never_longer(words: str, most: int) -> None:
    made = brief(words, most)
    assert len(made) <= most
    assert made.isprintable()
