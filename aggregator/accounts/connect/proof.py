"""The proof that a browser belongs to the principal who asked to connect an account.

Rule: a link for one agent or user is useless to another, so that a forwarded link connects no account for the wrong one
(MCP, URL mode elicitation, "phishing"). Only an operator connects an account shared by all.
"""

from typing import Final, Literal

from aggregator.accounts.connect.parts import KeyCheck
from aggregator.domain.grant_owner import GrantOwner
from aggregator.domain.principal import Principal
from aggregator.frontends.web.host_guard import Scope, source_in
from aggregator.identity.identify import Refused, RequestFacts

# `here`: only from this machine. `key`: an API key of the agent. `operator`: a key of an operator of the console.
# `sign_in`: the user, at their issuer.
Proof = Literal["here", "key", "operator", "sign_in"]

NOT_HERE: Final = "This link is for the machine that the aggregator runs on: open it in a browser there."
_OTHER_KEY: Final = "This key is not one of the agent that the link was made for."
_NO_OPERATOR: Final = "This account is used for all agents, so an operator connects it. This is not an operator's key."


def proof_of(asked_by: Principal, owner: GrantOwner) -> Proof:
    """Return the proof that is needed of who opens a link."""
    if asked_by.token is None and asked_by.key_id is None:
        return "here"
    if owner.kind in ("shared", "gateway"):
        return "operator"
    return "sign_in" if asked_by.token is not None else "key"


def refused_key(scope: Scope, key: str, proof: Proof, asked_by: Principal, keys: KeyCheck) -> str | None:
    """Return why a key does not prove that its holder may continue, or None."""
    found = keys.authenticate(RequestFacts("console", (), (key.strip(),), source=source_in(scope)))
    if isinstance(found, Refused):
        return found.reason
    if found.key_id is None:
        return _OTHER_KEY
    if proof == "operator":
        record = keys.keyring.record(found.key_id)
        return None if record is not None and record.console_role == "operator" else _NO_OPERATOR
    same = (found.agent_id, found.tenant) == (asked_by.agent_id, asked_by.tenant)
    return None if same else _OTHER_KEY
