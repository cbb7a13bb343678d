"""Decide the agent of an access token by the rules `who` of the policy files, and the scopes that rules want of it.

Law: deciding is pure: the verified claims of a token and the rules go in, a decision with its reason comes out. Rule 1:
the first rule that fits counts, in the order of the file. Rule 2: an agent made from a claim is never one that the
policy files name. Rule 3: if several issuers are accepted, a rule without an issuer fits no token: each issuer has its
own `alice`, and its own group `admins`. Rule 4: a scope of a rule may name several with `|` between; a token with one
of them is enough, since a broad scope often stands for a narrow one. The first is the one to ask for.
"""

import re
from collections.abc import Collection, Iterable, Sequence, Set
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Final, NamedTuple

from aggregator.domain.principal import LOCAL, TokenFacts, is_agent_id
from aggregator.policy.rules import WhoRule

# Digits of the digest that stands for a claim which is no name of an agent: too many to look for another claim with the
# same one. A claim that looks like one is replaced too, so that it cannot be another's.
_DIGITS: Final = 20
_DIGEST: Final = re.compile(rf"[0-9a-f]{{{_DIGITS}}}")


class WhoDecision(NamedTuple):
    """The agent of a token; `agent_id` is None if no rule fits.

    made: the agent is in no policy file; it has the tenant and the roles of the rule. rule, source: the rule that
    decided, and its place. passed: for each rule before it, why it does not fit.
    """

    agent_id: str | None
    reason: str
    rule: str | None = None
    source: str | None = None
    made: bool = False
    tenant: str | None = None
    roles: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()


def decide_who(
    rules: Sequence[WhoRule], token: TokenFacts, named: Collection[str], *, one_issuer: bool = True
) -> WhoDecision:
    """Return the agent that a token stands for.

    named: the names, in lower case, that no claim may make. one_issuer: the tokens of one issuer alone are accepted.
    """
    passed: list[str] = []
    for rule in rules:
        gap = _gap(rule, token, one_issuer=one_issuer)
        if gap is None:
            return _decided(rule, token, named)._replace(passed=tuple(passed))
        passed.append(f"{rule} ({rule.place}): {gap}")
    why = "no rule of `who` fits" if rules else "no policy file has rules `who`"
    return WhoDecision(None, why, passed=tuple(passed))


def names_taken(rules: Iterable[WhoRule], agents: Iterable[str]) -> frozenset[str]:
    """Return the names that no claim may make, in lower case: agents of the files, and those that rules name."""
    return frozenset(
        name.lower() for name in (LOCAL.agent_id, *agents, *(rule.agent for rule in rules if "{" not in rule.agent))
    )


def _gap(rule: WhoRule, token: TokenFacts, *, one_issuer: bool) -> str | None:
    """Return why a rule does not fit a token; None if it does."""
    if rule.issuer is None and not one_issuer:
        return "it names no `issuer`, and the tokens of several are accepted"
    if rule.issuer is not None and rule.issuer != token.issuer:
        return "another issuer"
    if rule.subject is not None and not _fits(rule.subject, token.subject):
        return "another subject"
    if rule.client is not None and (token.client is None or not _fits(rule.client, token.client)):
        return "another client"
    if rule.groups and not any(_fits(group, own) for group in rule.groups for own in token.groups):
        return "none of the groups"
    lacking = [scope for scope in rule.scopes if scope not in token.scopes]
    return f"without the scope {lacking[0]}" if lacking else None


def covers(wide: WhoRule, narrow: WhoRule) -> bool:
    """Return whether one rule surely fits every token that another fits; with stars alone the text of one tells."""
    return (
        wide.issuer in (None, narrow.issuer)
        and (wide.subject is None or (narrow.subject is not None and _fits(wide.subject, narrow.subject)))
        and (wide.client is None or (narrow.client is not None and _fits(wide.client, narrow.client)))
        and (
            not wide.groups
            or (bool(narrow.groups) and all(any(_fits(one, other) for one in wide.groups) for other in narrow.groups))
        )
        and set(wide.scopes) <= set(narrow.scopes)
    )


def _fits(pattern: str, text: str) -> bool:
    """Return whether a claim is the text of a rule, in which `*` stands for any characters; the case counts."""
    if "*" not in pattern:
        return pattern == text
    return fnmatchcase(text, "".join("[[]" if char == "[" else "[?]" if char == "?" else char for char in pattern))


def _decided(rule: WhoRule, token: TokenFacts, named: Collection[str]) -> WhoDecision:
    found = WhoDecision(rule.agent, f"{rule} fits", str(rule), str(rule.place))
    prefix, brace, claim = rule.agent.partition("{")
    if not brace:
        return found._replace(made=True, tenant=rule.tenant, roles=rule.roles)
    value = token.subject if claim == "subject}" else token.client
    if value is None:
        return found._replace(agent_id=None, reason=f"{rule} names the agent by the client, and the token has none")
    agent = f"{prefix}{value}"
    if _DIGEST.fullmatch(value) or not is_agent_id(agent):
        agent = prefix + sha256(f"{len(token.issuer)} {token.issuer} {value}".encode()).hexdigest()[:_DIGITS]
    # Compare in lower case: users would confuse names that differ only in case.
    if agent.lower() in named:
        why = f"{rule} would make the agent {agent}, and there is one of that name already"
        return found._replace(agent_id=None, reason=why)
    return found._replace(agent_id=agent, made=True, tenant=rule.tenant, roles=rule.roles)


def lacking(wanted: Iterable[str], have: Set[str]) -> tuple[str, ...]:
    """Return the scopes to ask for besides those that a token has; empty if it has enough."""
    return tuple(dict.fromkeys(scope.partition("|")[0] for scope in wanted if have.isdisjoint(scope.split("|"))))


def together(have: Iterable[str], more: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes of one token that combines both, in a stable order."""
    return tuple(sorted({*have, *more}))
