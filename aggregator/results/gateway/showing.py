"""The step of the pipeline that shows large results in part, and keeps them whole."""

import asyncio
import sys
from collections.abc import Collection, Mapping
from typing import Any, Final

from aggregator.domain.bounds.offload import is_long
from aggregator.domain.bounds.small import is_small
from aggregator.domain.principal import Principal
from aggregator.domain.text.tokens import TOKENS_OF_CHARACTER
from aggregator.policy.limits import Limits
from aggregator.results.config import ResultsConfig
from aggregator.results.gateway.keeper import PageBounds, ResultKeeper, ResultSource
from aggregator.results.gateway.preview import preview, shown
from aggregator.wire.codec import TooDeep, encode

# The frontend without resources: its callers have no use for a link to one.
_WITHOUT_RESOURCES: Final = "v1"
# The first revision that has links to resources in results.
_LINKS_SINCE: Final = "2025-06-18"
# Results with no more values, and no longer texts, are measured at once.
_VALUES: Final = 64
_CHARACTERS: Final = 2**14
# Without a bound on tokens, a page of a result that was too large in bytes has so many at most.
_PAGE_TOKENS: Final = 10_000


def knows_links(frontend: str, version: str) -> bool:
    """Return whether hosts of a frontend and a revision know links to resources in results."""
    return frontend != _WITHOUT_RESOURCES and version >= _LINKS_SINCE


class LargeResults:
    """The choice of results to shorten. Without a store, only content that a policy forbids is cut."""

    def __init__(self, keeper: ResultKeeper) -> None:
        self.keeper = keeper
        # A text that is no longer than this is surely within the bound.
        self.most_characters = 0.0
        # Whether `max_tokens` counts for tools that a host calls by their own names.
        self.cuts_direct = False
        self.reconfigure(keeper.config)

    def reconfigure(self, config: ResultsConfig) -> None:
        """Take the bounds of a new configuration, for results from now on."""
        self.keeper.config, self.cuts_direct = config, config.direct
        bounded = config.max_tokens and self.keeper.can_keep
        self.most_characters = config.max_tokens / TOKENS_OF_CHARACTER if bounded else sys.maxsize

    def is_small(self, result: Mapping[str, Any], *, structured: bool, most: float | None = None) -> bool:
        """Return whether a result is surely within the bounds, by a look at its lengths: `most` characters.

        `structured`: its structured part counts too.
        """
        characters = 0
        if structured and (value := result.get("structuredContent")) is not None:
            if not is_small(value):
                return False
            characters = len(encode(value))
        content = result.get("content")
        if type(content) is list:
            for block in content:
                if type(block) is dict:
                    text = block.get("text")
                    if text is None and type(resource := block.get("resource")) is dict:
                        text = resource.get("text")
                    if type(text) is str:
                        characters += len(text)
        return characters <= (self.most_characters if most is None else most)

    def surely_fits(
        self, result: Mapping[str, Any], limits: Limits, *, keeps_structured: bool, counts_tokens: bool
    ) -> bool:
        """Return whether a short look shows that `fitted` returns a result whole. The arguments are the same."""
        if is_long(result.get("content")):
            return False
        most = self._most_tokens(limits, counts_tokens=counts_tokens)
        if not self._fits_tokens(result, most, keeps_structured=keeps_structured):
            return False
        if limits.result is None:
            return True
        try:
            return is_small(result, _VALUES, _CHARACTERS) and len(encode(result)) <= limits.result.most
        except TooDeep:
            return False

    def _most_tokens(self, limits: Limits, *, counts_tokens: bool) -> int:
        """Return the tokens that a result may have; 0 for no bound."""
        most = self.keeper.config.max_tokens
        bounds = [most] if most and counts_tokens else []
        bounds += [limits.tokens.most] if limits.tokens is not None else []
        return min(bounds, default=0) if self.keeper.can_keep else 0

    def _fits_tokens(self, result: Mapping[str, Any], most: int, *, keeps_structured: bool) -> bool:
        """Return whether a short look shows that no bound on tokens cuts a result."""
        return (
            not most
            or result.get("isError") is True
            # A long list is gone through in the thread.
            or (
                not is_long(result.get("content"))
                and self.is_small(result, structured=not keeps_structured, most=most / TOKENS_OF_CHARACTER)
            )
        )

    async def fitted(
        self,
        result: dict[str, Any],
        limits: Limits,
        principal: Principal,
        source: ResultSource | None,
        *,
        keeps_structured: bool,
        links: bool,
        counts_tokens: bool = True,
        for_program: bool = False,
        labels: Collection[str] = (),
    ) -> dict[str, Any]:
        """Return the result for its caller: whole, or its beginning with a handle to read on.

        `source` is its tool, None for a program's result. `keeps_structured`: its host saw an output schema, and so
        gets the whole structured result. `links`: the host knows links to resources. `counts_tokens`: `max_tokens`
        bounds it, and not only a policy. `for_program`: a program of `run_code` reads it, not a model, so that no bound
        on tokens counts. `labels`: its flow labels.
        """
        config, keeper = self.keeper.config, self.keeper
        most = self._most_tokens(limits, counts_tokens=counts_tokens) if not for_program else 0
        if limits.result is None and self._fits_tokens(result, most, keeps_structured=keeps_structured):
            return result
        preview_tokens = min(keeper.preview_tokens, most) if most else keeper.preview_tokens
        try:
            found = await asyncio.to_thread(
                preview, result, most, preview_tokens, limits.result, keeps_structured=keeps_structured
            )
        except TooDeep:
            # It cannot be serialized at all; the writer reports that.
            return result
        if found is None:
            return result
        page = PageBounds(most or _PAGE_TOKENS, limits.result.most if limits.result is not None else None)
        handle = await keeper.keep(principal, found.document, page, source, labels)
        if handle is None and found.limit is None:
            return result
        answer = await asyncio.to_thread(shown, found, handle, config.keep, links=links)
        if found.limit is not None and (
            result.get("isError") is True or (keeps_structured and "structuredContent" in result)
        ):
            # Without its structured part the answer of a tool that declares an output schema is only valid as an error.
            answer["isError"] = True
        return answer
