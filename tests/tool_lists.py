"""The tools of servers in a whole list, which ends with the tool by which large results are read on.

A list without any tool of a server has `list_servers`, which says why.
"""

from collections.abc import Iterable

from aggregator.gateway.meta.exposure import EXPLAINING
from aggregator.results.meta_tool import READ_RESULT


def of_servers(names: Iterable[str]) -> list[str]:
    """Return the names of a list that are tools of servers."""
    return [name for name in names if name not in (READ_RESULT, EXPLAINING)]
