"""The share of one agent in the connections of a server: of each of its accounts one, and of no other agent."""

from aggregator.domain.abilities import NOTHING
from aggregator.domain.grant_owner import GrantOwner
from aggregator.upstream.sessions.side_connection import SideConnection, SideConnections, SideKey


async def test_the_accounts_of_an_agent_have_shares_of_their_own() -> None:
    """Many people may be one agent, each with an account."""
    sides, one, other = SideConnections(), GrantOwner("user", ("i", "ada")), GrantOwner("user", ("i", "bo"))
    for number in range(2):
        sides.add(SideConnection(SideKey("host", "modern", NOTHING, number, one), None, False, "shop"))
    assert not sides.has_share("shop", one, 2)
    assert sides.has_share("shop", one, 3)
    assert sides.has_share("shop", other, 2)
    assert sides.has_share("shop", None, 2)
    assert sides.has_share("mail", one, 2)
