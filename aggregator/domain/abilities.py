"""The requests a host takes while its call runs, and what each of them needs.

This file decides; it awaits nothing.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from aggregator.domain.versions import era_of

ELICIT: Final = "elicitation/create"
SAMPLE: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"
QUESTIONS: Final = frozenset({ELICIT, SAMPLE, ROOTS})

# Forms came with the first of these revisions, pages with the second (L/client/elicitation).
_FORMS_SINCE: Final = "2025-06-18"
_URLS_SINCE: Final = "2025-11-25"


class HostCapabilities(NamedTuple):
    """The client capabilities of a host that can be forwarded to an upstream; no other is declared.

    `urls`: it can send its user to pages; `roots_change`: it notifies of changes of its roots.
    """

    forms: bool = False
    urls: bool = False
    sampling: bool = False
    sampling_tools: bool = False
    roots: bool = False
    roots_change: bool = False


NOTHING: Final = HostCapabilities()
# Declared if the host for later questions is not known yet.
EVERYTHING: Final = HostCapabilities(forms=True, urls=True, sampling=True, sampling_tools=True, roots=True)


def abilities_of(version: str, capabilities: Any) -> HostCapabilities:
    """Return the declared capabilities of a host: a client's `capabilities` in the given revision."""
    if not capabilities or not isinstance(capabilities, Mapping):
        return NOTHING
    sampling, roots = capabilities.get("sampling"), capabilities.get("roots")
    elicitation = capabilities.get("elicitation") if version >= _FORMS_SINCE else None
    elicits = isinstance(elicitation, Mapping)
    modes: Mapping[str, Any] = elicitation if isinstance(elicitation, Mapping) else {}
    return HostCapabilities(
        # An empty object means forms; only `url` means no forms.
        forms=elicits and (not modes or "form" in modes),
        urls="url" in modes and version >= _URLS_SINCE,
        sampling=isinstance(sampling, Mapping),
        sampling_tools=isinstance(sampling, Mapping) and "tools" in sampling,
        roots=isinstance(roots, Mapping),
        # 2026-07-28 has no notification for it.
        roots_change=isinstance(roots, Mapping) and roots.get("listChanged") is True and era_of(version) == "legacy",
    )


@lru_cache(maxsize=64)
def declared(abilities: HostCapabilities, *, alone: bool = False) -> Mapping[str, Any]:
    """Return the `capabilities` of a client with these abilities; `alone`: no other host uses the connection.

    Only then a change of roots can be announced: with several hosts it would be ambiguous.
    """
    capabilities: dict[str, Any] = {}
    if abilities.forms or abilities.urls:
        modes = {"form": abilities.forms, "url": abilities.urls}
        capabilities["elicitation"] = {mode: {} for mode, able in modes.items() if able}
    if abilities.sampling:
        capabilities["sampling"] = {"tools": {}} if abilities.sampling_tools else {}
    if abilities.roots:
        capabilities["roots"] = {"listChanged": True} if alone and abilities.roots_change else {}
    return capabilities


def lacking(abilities: HostCapabilities, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
    """The capabilities this question needs and the host has not, as `requiredCapabilities` names them; None if all."""
    if method == ELICIT:
        url = params.get("mode") == "url"
        if not (abilities.urls if url else abilities.forms):
            return {"elicitation": {"url" if url else "form": {}}}
    elif method == SAMPLE:
        tools = "tools" in params or "toolChoice" in params
        if not abilities.sampling or (tools and not abilities.sampling_tools):
            return {"sampling": {"tools": {}} if tools else {}}
    elif method == ROOTS and not abilities.roots:
        return {"roots": {}}
    return None
