"""Cache hints of results for hosts of 2026-07-28: for how long and for whom (S/server/utilities/caching)."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from aggregator.domain.freshness import OURS, OURS_FOR_ONE, Freshness, least
from aggregator.gateway.views.views import View
from aggregator.upstream.list_kinds import Kind
from aggregator.upstream.upstream import Upstream


class CacheHints:
    """The cache hints of merged lists: the shortest of the servers' own and ours."""

    def __init__(self, upstreams: Mapping[str, Upstream]) -> None:
        self._upstreams = upstreams

    def of(self, view: View, *kinds: Kind, alike: bool = True) -> dict[str, Any]:
        """Return the hints of a list that merges these lists of every server.

        `alike`: the names in it are spelled the same for all hosts.
        """
        now = asyncio.get_running_loop().time()
        parts = [OURS if alike else OURS_FOR_ONE]
        for upstream in self._upstreams.values():
            for kind in kinds:
                if upstream.lists[kind]:
                    parts.append(upstream.lists.freshness(kind, now) or OURS_FOR_ONE)
                    upstream.lists.refresh_if_stale(kind, now)
        return narrowed(least(parts), view).hints()


def narrowed(fresh: Freshness, view: View) -> Freshness:
    """Return a freshness that is public only if the result does not depend on the requesting agent."""
    everybody = view.open and view.principal.key_id is None and view.principal.token is None
    return fresh if everybody else replace(fresh, public=False)
