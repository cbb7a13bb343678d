"""The cache of the checks of all tools: each is compiled when first needed; the one used longest ago goes."""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.records import ToolRecord
from aggregator.schemas.declared_names import DeclaredNames
from aggregator.schemas.fault import UnusableSchema
from aggregator.schemas.workers.small_enough import is_small_enough

if TYPE_CHECKING:
    from aggregator.schemas.check import SchemaCheck

_CAPACITY: Final = 4_096

Schema = Mapping[str, Any]


class UncompiledSchema:
    """Schemas that may take long to compile: only a worker process does that (`workers`)."""

    __slots__ = ("__weakref__", "schemas")

    warnings: tuple[str, ...] = ()

    def __init__(self, schemas: tuple[Schema, ...]) -> None:
        self.schemas = schemas

    def at_once(self, value: Any, limit: int = 10) -> None:
        """Return None: such a check is never made at once."""

    def fits_at_once(self, value: Any) -> bool:
        """Return False: see `at_once`."""
        return False


class SchemaChecks:
    """A cache of compiled checks. Safe in threads. A schema that cannot be compiled is kept as its `UnusableSchema`."""

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self._capacity = capacity
        # By identity, which is quick; the schemas are kept, so that no other object can get their identity.
        self._by_identity: LruCache[
            tuple[int, ...], tuple[tuple[Schema, ...], SchemaCheck | UncompiledSchema | UnusableSchema]
        ] = LruCache(capacity)
        self._by_content: LruCache[bytes, SchemaCheck | UncompiledSchema | UnusableSchema] = LruCache(capacity)
        self._names: LruCache[int, tuple[Schema, DeclaredNames | None]] = LruCache(capacity)

    def get(self, tool: ToolRecord, extra: Sequence[Schema] = ()) -> "SchemaCheck | UncompiledSchema":
        """Return the check of a tool's arguments, tightened by `extra`.

        Raises:
            UnusableSchema: the schema cannot be compiled, now or later.
        """
        return self._get((tool.definition.get("inputSchema", _ANYTHING), *extra))

    def output(self, tool: ToolRecord) -> "SchemaCheck | UncompiledSchema | None":
        """Return the check of a tool's `structuredContent`; None if it declares no `outputSchema`.

        Raises:
            UnusableSchema: the schema cannot be compiled.
        """
        schema = tool.definition.get("outputSchema")
        return None if schema is None else self._get((schema,))

    def names(self, tool: ToolRecord) -> DeclaredNames | None:
        """Return the names of a tool's arguments; None if its schema is too large to read them at once."""
        schema = tool.definition.get("inputSchema", _ANYTHING)
        held = self._names.get(id(schema))
        if held is None:
            held = schema, DeclaredNames(schema) if is_small_enough(schema) else None
            self._names.put(id(schema), held)
        return held[1]

    async def prepare(self, tools: Iterable[ToolRecord]) -> dict[str, list[str]]:
        """Compile ahead of the calls, up to the cache size, yielding after each tool. Return the unchecked parts by
        tool name.
        """
        await asyncio.to_thread(_import_engine)
        notes_by_tool: dict[str, list[str]] = {}
        for tool in islice(tools, self._capacity):
            notes: list[str] = []
            for get, what in ((self.get, "inputSchema"), (self.output, "outputSchema")):
                try:
                    check = get(tool)
                except UnusableSchema as problem:
                    notes.append(f"its {what} is not checked: {problem}")
                else:
                    notes += [f"{what}: {warning}" for warning in check.warnings] if check is not None else []
            if notes:
                notes_by_tool[tool.name] = notes
            await asyncio.sleep(0)
        return notes_by_tool

    def _get(self, schemas: tuple[Schema, ...]) -> "SchemaCheck | UncompiledSchema":
        key = tuple(map(id, schemas))
        held = self._by_identity.get(key)
        found = held[1] if held is not None else self._compiled(schemas, key)
        if isinstance(found, UnusableSchema):
            raise UnusableSchema(*found.args)
        return found

    def _compiled(
        self, schemas: tuple[Schema, ...], key: tuple[int, ...]
    ) -> "SchemaCheck | UncompiledSchema | UnusableSchema":
        small = all(map(is_small_enough, schemas))
        digest = _digest(schemas) if small else b""
        found = self._by_content.peek(digest) if digest else None
        if found is None:
            from aggregator.schemas.check import compile_quickly

            try:
                found = (compile_quickly(*schemas) if small else None) or UncompiledSchema(schemas)
            except UnusableSchema as problem:
                found = problem
        self._by_identity.put(key, (schemas, found))
        if digest:
            self._by_content.put(digest, found)
        return found


_ANYTHING: Final[Schema] = {"type": "object"}


def _digest(schemas: tuple[Schema, ...]) -> bytes:
    """Return a digest of the contents, the order of keys included; empty for a value that cannot be written as JSON."""
    try:
        return blake2b(json.dumps(schemas).encode(), digest_size=16).digest()
    except (ValueError, TypeError, RecursionError):
        return b""


def _import_engine() -> None:
    """Import the engine; a thread runs this ahead of the first check, since it takes some 5 ms."""
    from aggregator.schemas import check

    assert check
