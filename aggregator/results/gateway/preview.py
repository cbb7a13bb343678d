"""The beginning of a large result with its note, before and after it is kept. Nothing here waits or stores.

Law: an error is never cut for its tokens, and nothing at all comes through beyond the bytes that a policy allows.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from aggregator.config.durations import format_duration
from aggregator.domain.call_record import SHORTENED_KEY
from aggregator.domain.text.tokens import estimate
from aggregator.policy.limits import ResultLimit
from aggregator.results.gateway.handles import URI_HEAD
from aggregator.results.read.document import ResultDocument, text_of
from aggregator.results.read.shorten import NOTE_TOKENS, Shortened, shorten
from aggregator.wire.codec import encode

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
