"""A site of the test's own, and a watch on the connections that this process makes."""

import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import pytest

from tests.oauth.site import Site, serving_site

_OPEN_WATCHES: Final[list[list[tuple[str, int]]]] = []
_HOOKED: Final[list[bool]] = []


def _notice(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and _OPEN_WATCHES and isinstance(arguments[1], tuple):
        for watch in _OPEN_WATCHES:
            watch.append((str(arguments[1][0]), int(arguments[1][1])))


@pytest.fixture
def connections() -> Iterator[list[tuple[str, int]]]:
    """The addresses that sockets of this process were connected to, as the interpreter itself reports them."""
    if not _HOOKED:
        # A hook stays for as long as the process.
        _HOOKED.append(True)
        sys.addaudithook(_notice)
    watch: list[tuple[str, int]] = []
    _OPEN_WATCHES.append(watch)
    yield watch
    _OPEN_WATCHES.remove(watch)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with serving_site() as running:
        yield running
