"""How long hosts of 2026-07-28 may keep our results, and for whom (S/server/utilities/caching)."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from aggregator.domain.freshness import Freshness, least
from aggregator.gateway.views.views import View
from aggregator.upstream.list_kinds import Kind
from aggregator.upstream.upstream import Upstream

# What is ours in a list, the rules, may change at any time: hosts that listen are told, others ask again soon.
OURS: Final = Freshness(5_000, public=True)
_OURS_FOR_ONE: Final = replace(OURS, public=False)


class CacheHints:
    """Of merged lists: the servers' own words, as far as they give any, and ours."""

    def __init__(self, links: Mapping[str, Upstream]) -> None:
        self._links = links

    def of(self, view: View, *kinds: Kind, alike: bool = True) -> dict[str, Any]:
        """The hints of a list that these lists of every server are merged into; `alike` says that the names in it are
        spelled in one way for all hosts."""
        now = asyncio.get_running_loop().time()
        parts = [OURS if alike else _OURS_FOR_ONE]
        for link in self._links.values():
            for kind in kinds:
                if link.lists[kind]:
                    parts.append(link.lists.freshness(kind, now) or replace(OURS, public=False))
                    link.lists.look_again(kind, now)
        return narrowed(least(parts), view).hints()


def narrowed(fresh: Freshness, view: View) -> Freshness:
    """Not for everybody as soon as it depends on who asks."""
    everybody = view.open and view.principal.key_id is None
    return fresh if everybody else replace(fresh, public=False)
