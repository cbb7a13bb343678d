"""The reasons for a hit are those of its score: every point of it, from the fields of its document."""

import pytest

from aggregator.catalog.search.explain import reasons
from aggregator.catalog.search.index import SearchIndex, search
from aggregator.catalog.search.query import read
from aggregator.catalog.search.weighted_query import weigh
from tests.search.sample_index import tool

TOOLS = (
    tool("crm.send_offer", "Sends an offer to a customer by e-mail. It costs nothing."),
    tool("crm.find_customer", "Finds customers by name."),
    tool("mail.purge", "Empties the bin of a mailbox."),
    tool("maps.route", "查询两地之间的路线。"),
)
TEXTS = {"crm": "crm customers and contracts", "mail": "mail", "maps": "maps"}


def _index() -> SearchIndex:
    return SearchIndex.of(
        (server, text, tuple(one for one in TOOLS if one.server == server)) for server, text in TEXTS.items()
    )


@pytest.mark.parametrize(
    "query", ["mail an offer to the client", "customr", "send offer", "路线", "crm.send_offer", ""]
)
def test_the_points_told_are_the_points_counted(query: str) -> None:
    """Proves: E5"""
    visible = _index().visible_to(lambda tool: True)
    weighted = weigh(read(query), visible)
    found = reasons(visible, query, {one.name for one in TOOLS}, TEXTS)
    for slot, name in enumerate(visible.postings.names):
        impacts = visible.document(slot).impacts
        counted = [max((gain * impacts.get(term, 0) for term, gain in word), default=0.0) for word in weighted.words]
        counted += [gain * impacts.get(term, 0) for term, gain in weighted.extra]
        told = {one.points for one in found[name].matched}
        assert told <= {round(points, 3) for points in counted}, name
        assert max(told, default=0.0) == round(max(counted, default=0.0), 3), name


def test_every_hit_of_words_has_a_reason_and_others_have_none() -> None:
    visible = _index().visible_to(lambda tool: tool.server != "mail")
    hits = search(visible, "mail an offer", 10)
    found = reasons(visible, "mail an offer", {one.name for one in TOOLS}, TEXTS)
    assert hits
    assert all(found[hit.tool.name].matched for hit in hits)
    assert "mail.purge" not in found, "what is not seen is not explained"
    best = found[hits[0].tool.name]
    assert ("mail", "first sentence", "word") in {(one.asked, one.field, one.match) for one in best.matched}
    slipped = reasons(visible, "customr", {"crm.find_customer"}, TEXTS)["crm.find_customer"].matched
    assert {(one.asked, one.match) for one in slipped} == {("customr", "like it")}
