"""Compare what two rulebooks say of access tokens: whom they stand for, and which scopes they need.

Law: rules `who` count as the same wherever they stand, but for their order.
"""

from collections.abc import Iterator

from aggregator.policy.rulebook import Rulebook
from aggregator.policy.rules import WhoRule


def token_changes(old: Rulebook | None, new: Rulebook | None) -> Iterator[str]:
    """Yield a line for each rule about tokens that only one of the two rulebooks has."""
    before, after = _who(old), _who(new)
    for text, rule in after.items():
        if text not in before:
            yield f"{rule} is new ({rule.place}): a token of {text}"
    for text, rule in before.items():
        if text not in after:
            yield f"{rule} is gone: a token of {text}"
    kept = [text for text in after if text in before]
    if kept != [text for text in before if text in after]:
        yield "the rules who stand in another order"
    had, has = _scopes(old), _scopes(new)
    for key in sorted(had.keys() | has.keys()):
        was, now = had.get(key, ()), has.get(key, ())
        if was != now:
            yield f'scopes "{key[1]}" of {key[0]}: {" ".join(was) or "none"} -> {" ".join(now) or "none"}'


def _who(book: Rulebook | None) -> dict[str, WhoRule]:
    return {_text(rule): rule for rule in book.documents.who} if book is not None else {}


def _text(rule: WhoRule) -> str:
    """Return a rule as one text, without its place."""
    wanted = {
        "issuer": rule.issuer,
        "subject": rule.subject,
        "client": rule.client,
        "groups": " or ".join(rule.groups),
        "scopes": " ".join(rule.scopes),
    }
    tokens = ", ".join(f"{name} {value}" for name, value in wanted.items() if value) or "anyone"
    given = [f"tenant {rule.tenant}"] if rule.tenant is not None else []
    given += [f"roles {', '.join(rule.roles)}"] if rule.roles else []
    return f"{tokens} stands for {rule.agent}" + (f" with {' and '.join(given)}" if given else "")


def _scopes(book: Rulebook | None) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the scopes that rules want, by owner and pattern."""
    if book is None:
        return {}
    documents = book.documents
    bodies = [*documents.agents.values(), *documents.roles.values()]
    bodies += [documents.defaults] if documents.defaults is not None else []
    return {
        (body.owner, rule.pattern.text): tuple(rule.value)
        for body in bodies
        for rule in body.rules
        if rule.field == "scopes"
    }
