"""Stores whole results for their callers, and reads their pages.

Law: a handle refers to a stored result only. Any replica reads it, and only for its owner.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec

from aggregator.domain.bounds.result_memory import hold
from aggregator.domain.errors import AggregatorError
from aggregator.domain.principal import Principal
from aggregator.results.config import ResultsConfig
from aggregator.results.gateway.handles import handle_in, id_of, new_handle, owner_of
from aggregator.results.read.document import ResultDocument
from aggregator.results.read.read import BadRead, read_page
from aggregator.storage.errors import StorageError
from aggregator.wire.codec import encode

if TYPE_CHECKING:
    from aggregator.results.storage import KeptResults

log = logging.getLogger(__name__)

# The same for every reason, so that a guess learns nothing.
GONE: Final = "There is no such result, or it is over. Call the tool again; its answer has another handle."
_LEAST_PAGE: Final = 16
# Tokens of the beginning that is shown of a large result, and of a page of it unless the reader asks for another size.
PREVIEW_TOKENS: Final = 2_000
# Fields of a block that resource contents have too; `data` is the field of images and sound.
_KEPT_FIELDS: Final = ("mimeType", "text", "blob", "data")


class ResultStore(Protocol):
    """The place of kept results."""

    async def results(self) -> "KeptResults | None":
        """Return the kept results of the database; None without a database.

        Raises:
            StorageError: the database cannot be used.
        """


# A function that returns the time in seconds since 1970.
ResultClock = Callable[[], float]


class MayRead(Protocol):
    """A look at whether a caller may, by now, use the tool of a server that a result is of."""

    def __call__(self, server: str, own_name: str, /) -> bool: ...


class NoSuchResult(AggregatorError):
    """The handle refers to no result that this caller may read, or to an expired one."""

    def __init__(self) -> None:
        super().__init__(GONE)


class PageBounds(NamedTuple):
    """The bounds of a page: so many tokens, as estimated, and with `bytes` so many bytes of text."""

    tokens: int
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class KeptResult:
    """A stored result read back; `bounds` limit its pages.

    `source` is its tool, None for a program's result; `labels` are its flow labels at the time of storing.
    """

    document: ResultDocument
    bounds: PageBounds
    source: "ResultSource | None" = None
    labels: tuple[str, ...] = ()


class KeptPage(NamedTuple):
    """A page of a kept result."""

    text: str
    kept: KeptResult


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The requested part of a result, with the arguments of `read_page`."""

    offset: int | None = None
    path: str | None = None
    grep: str | None = None
    limit: int | None = None
    context: int | None = None
    case: bool | None = None
    count: bool | None = None
    columns: Sequence[str] | str | None = None
    where: str | Mapping[str, Any] | Sequence[Any] | None = None


class ResultSource(NamedTuple):
    """The tool that a result is of: its server, and its name there."""

    server: str
    own_name: str


class _Header(msgspec.Struct):
    """The head of a sealed document: the bounds of its pages, about how much memory it takes, whose it is, and its flow
    labels.
    """

    tokens: int
    bytes: int | None
    size: int
    source: ResultSource | None = None
    labels: tuple[str, ...] = ()


class ResultKeeper:
    """The kept results of this process's database. `store` is None without a database."""

    def __init__(
        self,
        store: ResultStore | None,
        config: ResultsConfig,
        clock: ResultClock = time.time,
        preview_tokens: int = PREVIEW_TOKENS,
    ) -> None:
        self._store = store
        self.config = config
        self.preview_tokens = preview_tokens
        self._clock = clock

    @property
    def can_keep(self) -> bool:
        """True if there is a database to keep results in."""
        return self._store is not None

    async def keep(
        self,
        principal: Principal,
        document: ResultDocument,
        bounds: PageBounds,
        source: ResultSource | None,
        labels: Collection[str] = (),
    ) -> str | None:
        """Keep a result for its caller and return its handle; None if it could not be stored.

        `labels` are its flow labels, which apply to the conversation that reads it.
        """
        if self._store is None:
            return None
        head = _Header(bounds.tokens, bounds.bytes, 0, source, tuple(sorted(labels)))
        config, now, handle, owner = self.config, self._clock(), new_handle(), owner_of(principal)
        try:
            rows = await self._store.results()
            if rows is None:
                return None
            parts = await asyncio.to_thread(_sealed, handle, owner, document, head)
            kept = await rows.add(
                id_of(handle), owner, parts, now=now, expires=now + config.keep, max_bytes=config.max_bytes
            )
        except StorageError as error:
            log.warning("a large result could not be kept to be read on: %s", error)
            return None
        if not kept:
            log.warning("a large result was not kept: it would take more than a quarter of `results.max_bytes`")
        return handle if kept else None

    async def open(self, principal: Principal, text: str, may_read: MayRead) -> KeptResult:
        """Return the result of a handle, or of its URI, for its owner.

        Raises:
            NoSuchResult: it does not exist, has expired, its tool is denied now, or the database cannot be read.
            ResultsFull: memory is exhausted at the moment.
        """
        handle = handle_in(text)
        if handle is None or self._store is None:
            raise NoSuchResult
        owner = owner_of(principal)
        try:
            rows = await self._store.results()
            parts = await rows.parts(id_of(handle), owner, now=self._clock()) if rows is not None else None
        except StorageError as error:
            log.warning("a kept result cannot be read: %s", error)
            raise NoSuchResult from None
        if parts is None:
            raise NoSuchResult
        unsealed = await asyncio.to_thread(_unsealed, handle, owner, parts)
        if unsealed is None:
            log.error("a kept result in the database is damaged: it cannot be read")
            raise NoSuchResult
        header, data = unsealed
        if header.source is not None and not may_read(*header.source):
            raise NoSuchResult
        hold(header.size)
        document = await asyncio.to_thread(ResultDocument.from_bytes, data)
        return KeptResult(document, PageBounds(header.tokens, header.bytes), header.source, header.labels)

    async def page(self, principal: Principal, text: str, asked: PageRequest, may_read: MayRead) -> KeptPage:
        """Return a page of a kept result, with a last line that says how to go on.

        Raises:
            NoSuchResult, ResultsFull: as of `open`.
            BadRead: there is no such path, offset or column, or an expression or condition is none.
        """
        kept = await self.open(principal, text, may_read)
        return KeptPage(await asyncio.to_thread(_page, kept, asked, self.preview_tokens), kept)


def _page(kept: KeptResult, asked: PageRequest, usual: int) -> str:
    most, bound = kept.bounds
    if asked.limit is not None and asked.limit < 1:
        raise BadRead("`limit` is a number of tokens, 1 at least.")
    while True:
        page = read_page(kept.document, **asdict(asked), usual=min(usual, most), most=most)
        if bound is None or most <= _LEAST_PAGE or len(page.text.encode("utf-8", "replace")) <= bound:
            return page.text
        most //= 2


def _sealed(handle: str, owner: str, document: ResultDocument, head: _Header) -> list[bytes]:
    from aggregator.results.gateway.sealing import seal

    data = document.to_bytes()
    head.size = max(len(document.text), len(data))
    header = msgspec.json.encode(head)
    return seal(handle, owner, header + b"\n" + data)


def _unsealed(handle: str, owner: str, parts: list[bytes]) -> tuple[_Header, bytes] | None:
    """Return the decrypted result; None if it is damaged."""
    from aggregator.results.gateway.sealing import KeptResultDamaged, unseal

    try:
        header, _, data = unseal(handle, owner, parts).partition(b"\n")
    except KeptResultDamaged:
        return None
    return msgspec.json.decode(header, type=_Header), data


def whole_as_contents(document: ResultDocument, uri: str) -> list[dict[str, Any]]:
    """Return a whole result as the contents of a resource: its blocks in order, then the structured result as JSON."""
    contents: list[dict[str, Any]] = []
    blocks = document.result.get("content")
    for block in blocks if isinstance(blocks, list) else ():
        inner = block.get("resource", block) if isinstance(block, dict) else None
        if not isinstance(inner, dict):
            continue
        given = {
            "blob" if key == "data" else key: inner[key] for key in _KEPT_FIELDS if isinstance(inner.get(key), str)
        }
        if "text" in given or "blob" in given:
            contents.append({"uri": uri, **given})
    structured = document.result.get("structuredContent")
    if structured is not None:
        text = encode(structured).decode("utf-8", "replace")
        contents.append({"uri": uri, "mimeType": "application/json", "text": text})
    return contents
