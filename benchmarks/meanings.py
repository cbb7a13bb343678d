"""The similarities of tools to queries by the sentence model, all vectors made at once."""

from collections.abc import Container, Iterable, Sequence

from aggregator.catalog.search.semantic.installed import open_encoder
from aggregator.catalog.search.semantic.texts import is_latin
from aggregator.domain.records import ToolRecord
from aggregator.gateway.views.embeddings import OF_QUERY, OF_TOOL


class KnownMeanings:
    """The vectors of tools and of queries; takes 31 ms of a core a tool, and 25 a query.

    Raises:
        OperatorError: the model is not installed.
    """

    def __init__(self, tools: Sequence[ToolRecord], queries: Iterable[str]) -> None:
        encoder = open_encoder()
        # Needs numpy, which need not be there.
        from aggregator.catalog.search.semantic.index import MeaningIndex

        self._index = MeaningIndex(tools)
        missing = dict(self._index.missing())
        self._index.add(dict(zip(missing, encoder.encode(list(missing.values()), OF_TOOL), strict=True)))
        self._index.publish()
        latin = [query for query in dict.fromkeys(queries) if is_latin(query)]
        self._vectors = dict(zip(latin, encoder.encode(latin, OF_QUERY), strict=True))

    def similarities(self, query: str, visible: Container[str]) -> dict[str, float]:
        """Return how similar each of these tools is to a query; nothing for one that the model does not read."""
        return self._index.similarities(self._vectors[query], visible) if query in self._vectors else {}
