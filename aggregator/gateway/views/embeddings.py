"""The search by meaning of one process: embeddings of tools, computed in the background, and of queries.

Law: no search waits for the embeddings of tools: until there are some, it uses keywords alone.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Container, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aggregator.catalog.search.semantic.models import KEYWORDS, KnownModel, Spoken
from aggregator.domain.errors import OperatorError
from aggregator.domain.records import ToolRecord
from aggregator.gateway.views.model_vectors import ModelVectors, VectorStore

if TYPE_CHECKING:
    from aggregator.catalog.search.semantic.merge import QueryMeaning

log = logging.getLogger(__name__)

# How similar each of the tools with these names is to a query. Takes time with their number: call it in a thread.
Similarity = Callable[[Container[str]], "QueryMeaning"]

# Queries that are encoded at once; how many may wait for that before others are answered by keywords alone.
_TOGETHER: Final = 2
_MOST_WAITING: Final = 16


class MeaningProgress(NamedTuple):
    """How many tools are found by their meaning, of how many."""

    found: int
    tools: int


class ToolEmbeddings:
    """The vectors of one process; `run` keeps them in step with the tools passed to `set_tools`."""

    def __init__(self, store: VectorStore | None = None) -> None:
        self._store = store
        # Those to be found by their meaning; None while the search by meaning is off.
        self.tools: tuple[ToolRecord, ...] | None = None
        self._changed = asyncio.Event()
        self._complete = asyncio.Event()
        self._models: Sequence[ModelVectors] = ()
        self._slots = asyncio.Semaphore(_TOGETHER)
        self._waiting = 0

    def set_tools(self, tools: Iterable[ToolRecord] | None) -> None:
        """Take the tools to be found by their meaning; None: the search by meaning is off."""
        self.tools = tuple(tools) if tools is not None else None
        if self.tools is None:
            self._models = ()
        self._complete.clear()
        self._changed.set()

    async def wait_complete(self) -> None:
        """Wait until every tool has its vectors."""
        await self._complete.wait()

    @property
    def progress(self) -> MeaningProgress | None:
        """How far it is, by the model that is furthest behind; None once all are done, and while it is off."""
        if self.tools is None or self._complete.is_set():
            return None
        found = [len(model.index) if model.index is not None else 0 for model in self._models]
        return MeaningProgress(min(found, default=0), len(self.tools))

    async def run(self) -> None:
        """Make the vectors of tools until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self.tools is not None and await self._learn(self.tools) and not self._changed.is_set():
                self._complete.set()

    async def similarities_to(self, query: str) -> Similarity | None:
        """Return the similarity of tools to a query; None to use keywords alone.

        That is so while the search by meaning is off or has no vectors, for a query in letters that no model reads, and
        if too many queries wait.
        """
        if not self._models:
            return None
        models = [model for model in self._models if model.ready]
        if not models:
            return None
        from aggregator.catalog.search.semantic.texts import is_latin

        latin = is_latin(query)
        models = [model for model in models if latin or not model.model.latin]
        missing = [model for model in models if model.known_query(query) is None]
        vectors = {model: model.known_query(query) for model in models}
        if missing:
            if self._waiting >= _MOST_WAITING:
                return None
            async with self._turn():
                vectors.update(await asyncio.to_thread(_encoded, missing, query))
        return (lambda visible: _meaning(vectors, visible)) if models else None

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        self._waiting += 1
        try:
            async with self._slots:
                yield
        finally:
            self._waiting -= 1

    async def _learn(self, tools: tuple[ToolRecord, ...]) -> bool:
        """Make the vectors that these tools have not yet, until there are other tools; return if no model failed."""
        sound = True
        try:
            if not self._models:
                self._models = [ModelVectors(model, self._store) for model in await asyncio.to_thread(_installed)]
        except OperatorError as error:
            log.error("tools are found by keywords only: %s", error)
            return False
        for model in self._models:
            try:
                await model.learn(tools, self._changed)
            except OperatorError as error:
                sound = False
                log.error("the model %s finds no tools: %s", model.model.name, error)
            except Exception as error:  # the next tools are tried again
                sound = False
                log.error("the model %s finds only some tools, by an error of ours", model.model.name, exc_info=error)
        return sound


def _installed() -> list[KnownModel]:
    from aggregator.catalog.search.semantic.installed import installed_models

    return installed_models()


def _encoded(models: Sequence[ModelVectors], query: str) -> dict[ModelVectors, Any]:
    return {model: model.encode_query(query) for model in models}


def _meaning(vectors: dict[ModelVectors, Any], visible: Container[str]) -> "QueryMeaning":
    """Return what the models say of a query, by its vector in each."""
    from aggregator.catalog.search.relevance import ToolLikeness
    from aggregator.catalog.search.semantic.merge import Likeness, QueryMeaning

    spoken: Spoken = "english"
    rest = dict(vectors)
    for model, vector in vectors.items():
        if model.languages is not None:
            spoken, rest[model] = model.languages.separate(vector)
    likenesses, judge = [], None
    for model, vector in rest.items():
        weight = model.model.weights.get(spoken, 0.0)
        if len(rest) == 1 and spoken == "english":
            # No other model reads English better.
            weight = max(weight, model.model.alone)
        if not weight or model.index is None:
            continue
        similarities = model.index.similarities(vector, visible)
        likenesses.append(Likeness(similarities, weight, model.model.alike))
        # Of English, the second model says less than the words.
        if model.model.latin or spoken != "english":
            judge = ToolLikeness(similarities, alone=spoken == "other")
    return QueryMeaning(likenesses, KEYWORDS[spoken], judge)
