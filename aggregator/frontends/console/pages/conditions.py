"""The problems of the program, as `/readyz` knows them: one line each, for pages that show them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from aggregator.frontends.console.foreign_words import problem_text

_MOST: Final = 20
_TEXT: Final = 600


def problems_of(details: Mapping[str, Any], *, values: bool) -> list[dict[str, str]]:
    """Return the problems besides those of servers, each with its `area` and `text`; bounded. Without `values` they
    contain no foreign text.
    """
    found = [
        {"area": area, "text": problem_text(area, text, values=values)[:_TEXT]} for area, text in _problems(details)
    ]
    more = len(found) - _MOST
    return [*found[:_MOST], {"area": "more", "text": f"{more} more; `/readyz` has all of them"}] if more > 0 else found


def _problems(details: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for area, said in details.items():
        if isinstance(said, str):
            yield area, said
    yield from (("replicas", text) for text in details.get("differs", ()))
    config, policies = details.get("config") or {}, details.get("policies") or {}
    if config.get("broken"):
        yield "configuration", "The file as it is now cannot be used; the one in force stays."
    yield from (("configuration", text) for text in config.get("problems", ()))
    if effect := policies.get("effect"):
        yield "policies", effect
    yield from (("policies", text) for text in policies.get("problems", ()))
    for name, receiver in (details.get("notify") or {}).items():
        if receiver["problem"] is not None:
            yield "notify", f"{name} ({receiver['to']}) cannot be told: {receiver['problem']}"
