"""The step of the pipeline that shows large results in part, and keeps them whole.

Law: an error is never cut for its tokens, and nothing at all comes through beyond the bytes that a policy allows.
"""

import asyncio
import sys
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from aggregator.config.durations import format_duration
from aggregator.domain.bounds.offload import is_long
from aggregator.domain.bounds.small import is_small
from aggregator.domain.call_record import SHORTENED_KEY
from aggregator.domain.principal import Principal
from aggregator.domain.text.tokens import TOKENS_OF_CHARACTER, estimate
from aggregator.policy.limits import Limits, ResultLimit
from aggregator.results.config import ResultsConfig
from aggregator.results.gateway.handles import URI_HEAD
from aggregator.results.gateway.keeper import PageBounds, ResultKeeper, ResultSource
from aggregator.results.read.document import ResultDocument, text_of
from aggregator.results.read.shorten import NOTE_TOKENS, Shortened, shorten
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
TRUNCATED_KEY: Final = "aggregator/truncated"
_LEFT_OUT: Final = "left out"
# A preview is never made of fewer tokens than this: then nothing is shown.
_LEAST: Final = 8


class ResultPreview(NamedTuple):
    """A result shown in part. `blocks` are its beginning, `next` is the start of the rest, `about` describes its size;
    `size` is set if the whole has more bytes than `limit` allows.

    `keeps_structured`: the whole structured result accompanies the text. `outline` comes before the blocks.
    """

    result: Mapping[str, Any]
    blocks: tuple[Any, ...]
    next: int
    about: str
    document: ResultDocument
    tokens: int | None
    keeps_structured: bool
    size: int = 0
    limit: ResultLimit | None = None
    outline: str = ""


def preview(
    result: Mapping[str, Any],
    most_tokens: int,
    preview_tokens: int,
    limit: ResultLimit | None,
    *,
    keeps_structured: bool,
) -> ResultPreview | None:
    """Return the beginning of a result that is larger than allowed; None for one that is passed on whole.

    `most_tokens` is 0 for no bound. Takes long for a large result: call it in a thread.
    """
    if limit is not None:
        size = len(encode(result))
        if size > limit.most:
            return _within(result, preview_tokens, limit, size)
    kept = keeps_structured and "structuredContent" in result
    candidate = {key: value for key, value in result.items() if key != "structuredContent"} if kept else result
    cut = shorten(candidate, most_tokens, preview_tokens)
    if cut is None:
        return None
    document = ResultDocument.of(result) if kept else cut.document
    return ResultPreview(result, cut.blocks, cut.next, cut.about, document, cut.tokens, kept, outline=cut.outline)


def shown(found: ResultPreview, handle: str | None, keep: float, *, links: bool) -> dict[str, Any]:
    """Return the answer in place of the result; without a `handle` the rest is gone.

    `links`: the host knows links to resources, which name the whole.
    """
    result, over = found.result, found.limit is not None
    details: dict[str, Any] = {"next": found.next}
    if found.tokens is not None:
        details["tokens"] = found.tokens
        details["shown"] = sum(estimate(text) for block in found.blocks if (text := text_of(block)) is not None)
    if handle is not None:
        details["handle"] = handle
    left_out = "structuredContent" in result and not found.keeps_structured
    if left_out:
        details["structuredContent"] = _LEFT_OUT
    blocks = [{"type": "text", "text": f"[Outline:\n{found.outline}]"}] if found.outline else []
    blocks += [*found.blocks, {"type": "text", "text": _note(found, handle, keep)}]
    if handle is not None and links and not over:
        blocks.append({"type": "resource_link", "uri": URI_HEAD + handle, "name": "the whole result"})
    meta = result.get("_meta")
    if found.limit is not None:
        cut = {"bytes": found.size, "limit": found.limit.most}
        return {"content": blocks, "_meta": {TRUNCATED_KEY: cut, SHORTENED_KEY: details}}
    dropped = ("content", "_meta", "structuredContent") if left_out else ("content", "_meta")
    rest = {key: value for key, value in result.items() if key not in dropped}
    said_by_us = {SHORTENED_KEY: details}
    return {"content": blocks, **rest, "_meta": {**meta, **said_by_us} if isinstance(meta, dict) else said_by_us}


def _note(found: ResultPreview, handle: str | None, keep: float) -> str:
    """Return the last line of the answer: how much is shown, and how to go on."""
    said = f"[Shown: {found.about}."
    if found.limit is not None:
        said = f"[The result has {found.size} bytes, and the policy allows {found.limit.most}. Shown: {found.about}."
    if handle is None:
        return f"{said} The rest is lost: ask for less, or for a part of it.]"
    return (
        f'{said} Read on with read_result {{"handle": "{handle}", "offset": {found.next}}}, or choose with `path` '
        f"(as items[3].name), `grep` (with context, case, count), or `columns`, `where` of a table. "
        f"Kept for {format_duration(keep)}.]"
    )


def _within(result: Mapping[str, Any], preview_tokens: int, limit: ResultLimit, size: int) -> ResultPreview:
    """Return as much of a result as the bytes that a policy allows: its text first, then what else there is space for.

    Fields beside the content are left out.
    """
    given = result.get("content")
    blocks = [block for block in given if isinstance(block, Mapping)] if isinstance(given, list) else []
    texts = [{"type": "text", "text": text} for block in blocks if (text := text_of(block)) is not None]
    candidate: dict[str, Any] = {"content": texts}
    if "structuredContent" in result:
        candidate["structuredContent"] = result["structuredContent"]
    document = ResultDocument.of(result)
    kept, cut = _fitting(candidate, document, preview_tokens, limit.most)
    space, others, left_out = limit.most - len(encode(kept)), [], 0
    for block in blocks:
        if text_of(block) is None:
            cost = len(encode(block)) + 1
            left_out += cost > space
            if cost <= space:
                others.append(dict(block))
                space -= cost
    about = cut.about if cut is not None else "all of its text" if kept or not document.text else "nothing of it"
    if left_out:
        about += f", without {left_out} blocks of other kinds" if left_out > 1 else ", without a block of another kind"
    end = cut.next if cut is not None else len(document.text) if kept else 0
    tokens = cut.tokens if cut is not None else None
    return ResultPreview(result, (*kept, *others), end, about, document, tokens, False, size, limit)


def _fitting(
    candidate: dict[str, Any], document: ResultDocument, preview_tokens: int, space: int
) -> tuple[list[dict[str, Any]], Shortened | None]:
    """Return blocks of text that fit into `space` bytes, and how they were cut, if they were."""
    texts: list[dict[str, Any]] = candidate["content"]
    written = len(encode(texts))
    if written <= space and "structuredContent" not in candidate:
        return texts, None
    most = min(preview_tokens, space // 2)
    while most >= _LEAST:
        cut = shorten(candidate, 1, most + NOTE_TOKENS)
        if cut is not None and len(encode(list(cut.blocks))) <= space:
            return list(cut.blocks), cut
        # Most texts have three or four bytes in a token: a few rounds suffice.
        most = most * 2 // 3
    return [], None


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
