"""What the installed models say of queries, all vectors made at once."""

import asyncio
from collections.abc import Container, Iterable, Sequence

from aggregator.catalog.search.semantic.installed import installed_models
from aggregator.catalog.search.semantic.merge import QueryMeaning
from aggregator.domain.records import ToolRecord
from aggregator.gateway.views import model_vectors
from aggregator.gateway.views.embeddings import Similarity, ToolEmbeddings


class KnownMeanings:
    """The vectors of tools and of queries; takes some 60 ms of a core a tool, and 40 a query, with both models.

    Raises:
        OperatorError: no model is installed.
    """

    def __init__(self, tools: Sequence[ToolRecord], queries: Iterable[str]) -> None:
        self.names = [model.name for model in installed_models()]
        self._of: dict[str, Similarity | None] = {}
        asyncio.run(self._learn(tools, [*dict.fromkeys(queries)]))

    async def _learn(self, tools: Sequence[ToolRecord], queries: Sequence[str]) -> None:
        pause, model_vectors._LONGEST_PAUSE = model_vectors._LONGEST_PAUSE, 0.0  # type: ignore[misc]
        embeddings = ToolEmbeddings()
        running = asyncio.create_task(embeddings.run())
        embeddings.set_tools(tools)
        await embeddings.wait_complete()
        self._of = {query: await embeddings.similarities_to(query) for query in queries}
        running.cancel()
        model_vectors._LONGEST_PAUSE = pause  # type: ignore[misc]

    def of(self, query: str, visible: Container[str]) -> QueryMeaning:
        """Return what the models say of a query and these tools; nothing for one that no model reads."""
        similarity = self._of[query]
        return similarity(visible) if similarity is not None else QueryMeaning(())
