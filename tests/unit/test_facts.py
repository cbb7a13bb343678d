"""Tables that describe a kind of thing have a row for each, and each row leads to something."""

from pkgutil import resolve_name
from typing import get_args

from aggregator.accounts.config import GRANTS, GrantType
from aggregator.config.server_config import ServerType
from aggregator.config.servers.checks import NEEDS
from aggregator.upstream.transports import TRANSPORTS


def test_every_type_of_server_has_its_field_and_its_transport() -> None:
    """`auto` stands for two of them."""
    types = set(get_args(ServerType))
    assert set(NEEDS) == types
    assert set(TRANSPORTS) == types - {"auto"}
    assert all(callable(resolve_name(transport.opener)) for transport in TRANSPORTS.values())


def test_every_grant_gets_its_tokens_in_one_way() -> None:
    assert set(GRANTS) == set(get_args(GrantType))
    for facts in GRANTS.values():
        assert [facts.by_person, facts.by_itself, facts.exchanges].count(True) == 1
        assert facts.exchanges or not facts.signs_in
