"""What a name means, however it is spelled: tools and prompts by their listed names, and by server and own name."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic

from aggregator.catalog.pages import R
from aggregator.domain.bounds.slices import Steps, at_once
from aggregator.domain.names import canonical, spellings


class NameLookup(Generic[R]):
    """Look-ups in dictionaries, made once: of two records under one name the first is found, under one own name the
    last."""

    def __init__(self, records: Iterable[R] = ()) -> None:
        self.by_name: dict[str, R] = {}
        self.by_own: dict[tuple[str, str], R] = {}
        at_once(self.more(records))

    def more(self, records: Iterable[R]) -> Steps[None]:
        """Add further records, one in a step."""
        for record in records:
            yield
            self.by_own[record.prefix, record.own_name] = record
            for name in (canonical(record.prefix, record.own_name), *record.listed.values()):
                self.by_name.setdefault(name, record)

    def readings(self, name: str) -> Iterator[R]:
        """The records a name may mean, the likeliest first: as listed, then in every other spelling."""
        return readings((self,), name)


def readings(parts: Sequence[NameLookup[R]], name: str) -> Iterator[R]:
    """Yield what `NameLookup.readings` yields, of several parts as if all their records were in one."""
    listed = None
    for part in parts:
        listed = part.by_name.get(name)
        if listed is not None:
            yield listed
            break
    for pair in spellings(name):
        for part in reversed(parts):
            record = part.by_own.get(pair)
            if record is not None:
                if record is not listed:
                    yield record
                break
