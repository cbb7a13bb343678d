"""Look up tools and prompts by name in any spelling: by exposed name, and by server and own name."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Generic

from aggregator.catalog.pages import R
from aggregator.domain.bounds.slices import Steps, at_once
from aggregator.domain.names import canonical, keeps_parts, loosened, spellings
from aggregator.domain.records import ToolRecord

# Characters of a name that other spellings are searched for.
_LONGEST: Final = 300


class NameLookup(Generic[R]):
    """Look-ups of records by name, built once.

    `by_name` has exposed names, the first of several records counting; `by_own` has pairs of prefix and own name, the
    last counting.
    """

    def __init__(self, records: Iterable[R] = ()) -> None:
        self.by_name: dict[str, R] = {}
        self.by_own: dict[tuple[str, str], R] = {}
        at_once(self.add_steps(records))

    def add_steps(self, records: Iterable[R]) -> Steps[None]:
        """Add further records, one in a step."""
        for record in records:
            yield
            self.by_own[record.prefix, record.own_name] = record
            for name in (canonical(record.prefix, record.own_name), *record.listed.values()):
                self.by_name.setdefault(name, record)

    def candidates(self, name: str) -> Iterator[R]:
        """Return the records a name may mean, the likeliest first: by listed name, then in every other spelling."""
        return candidates((self,), name)


def candidates(parts: Sequence[NameLookup[R]], name: str) -> Iterator[R]:
    """Yield the records that a name may mean, over several look-ups as if all their records were in one."""
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


class SpellingLookup:
    """Look-ups of an agent's tools by the spellings that models write: the own name alone, other case, other signs. A
    separator stays where a word ends.

    Law: the tools returned depend on these tools and the name only, and in their order; nothing chooses among them.
    """

    def __init__(self) -> None:
        self._by_own: dict[str, list[ToolRecord]] = {}
        self._by_whole: dict[str, list[ToolRecord]] = {}
        self._by_loose_own: dict[str, list[ToolRecord]] = {}

    def add(self, tool: ToolRecord) -> None:
        """Add a tool."""
        own = loosened(tool.own_name)
        self._by_own.setdefault(tool.own_name, []).append(tool)
        for whole in {loosened(tool.prefix) + own, loosened(tool.server) + own}:
            self._by_whole.setdefault(whole, []).append(tool)
        self._by_loose_own.setdefault(own, []).append(tool)

    def tools(self, name: str) -> Sequence[ToolRecord]:
        """Return every tool that a name may stand for: one whose name it is but for spelling, else one whose own name
        it is but for spelling.
        """
        loose = loosened(name) if len(name) <= _LONGEST else ""
        if not loose:
            return ()
        wholly = (
            tool
            for tool in self._by_whole.get(loose, ())
            if any(keeps_parts(name, canonical(server, tool.own_name)) for server in (tool.prefix, tool.server))
        )
        found = [*self._by_own.get(name, ()), *wholly]
        found = found or [tool for tool in self._by_loose_own.get(loose, ()) if keeps_parts(name, tool.own_name)]
        return list({tool.name: tool for tool in found}.values())
