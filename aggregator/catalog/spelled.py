"""What a name means, however it is spelled: tools and prompts by their listed names, and by server and own name."""

from collections.abc import Iterable, Iterator
from typing import Generic

from aggregator.catalog.pages import R
from aggregator.domain.names import canonical, spellings


class Spelled(Generic[R]):
    """Look-ups in dictionaries, made once."""

    def __init__(self, records: Iterable[R]) -> None:
        self._by_name: dict[str, R] = {}
        self._by_own: dict[tuple[str, str], R] = {}
        for record in records:
            self._by_own[record.prefix, record.own_name] = record
            for name in (canonical(record.prefix, record.own_name), *record.listed.values()):
                self._by_name.setdefault(name, record)

    def readings(self, name: str) -> Iterator[R]:
        """The records a name may mean, the likeliest first: as listed, then in every other spelling."""
        listed = self._by_name.get(name)
        if listed is not None:
            yield listed
        for pair in spellings(name):
            record = self._by_own.get(pair)
            if record is not None and record is not listed:
                yield record
