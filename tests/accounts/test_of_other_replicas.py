"""The account of a host of another replica: the same as if the host were here."""

import json

import pytest

from aggregator.domain.errors import UpstreamError
from aggregator.domain.grant_owner import SHARED, owner_of
from aggregator.domain.missing import LoginRequired
from aggregator.domain.principal import Principal, TokenFacts
from aggregator.gateway.ask.upstream_caller import RequestCaller
from aggregator.gateway.host import Host
from aggregator.upstream.places.messages import CallerFacts, failure_from_wire, failure_to_wire
from aggregator.upstream.places.session_names import SessionNames
from aggregator.upstream.relaying.remote_caller import OpenQuestions, RemoteCaller

ANN = TokenFacts("https://login.example.com", 'ann"],["', text="never sent")


@pytest.mark.parametrize(
    "principal", [Principal("one"), Principal("one", "north", key_id="k"), Principal("one", "north", token=ANN)]
)
def test_the_owner_travels(principal: Principal) -> None:
    """All kinds of owners, with any characters; no token goes along."""
    here = RequestCaller(Host("http", None, principal, session="s"), "2025-11-25", {}, None)
    told = json.dumps(SessionNames().facts(here).to_wire())
    assert "never sent" not in told
    facts = CallerFacts.from_wire(json.loads(told))
    there = RemoteCaller("other", facts, OpenQuestions(), lambda _: None, lambda _: None, outside=False)
    assert there.account("user") == here.account("user") == owner_of(principal, "user")
    assert there.account("agent") == here.account("agent") == owner_of(principal, "agent")
    assert there.account("shared") == SHARED


def test_a_missing_account_travels() -> None:
    """The replica of the host is told what is missing, and makes the link."""
    missing = LoginRequired("files", "files wants more scopes.", scopes=["a", "b"])
    found: UpstreamError = failure_from_wire("files", json.loads(json.dumps(failure_to_wire(missing))))
    assert isinstance(found, LoginRequired)
    assert found.to_object() == missing.to_object()


def test_two_people_of_one_agent_are_two_hosts() -> None:
    """Without a session, a server's question to one is none to the other."""
    ben = TokenFacts(ANN.issuer, "ben")
    one, two = (
        RequestCaller(Host("http", None, Principal("one", token=token)), "2026-07-28", {}, None) for token in (ANN, ben)
    )
    assert one.identity != two.identity
