"""The meta tool `read_result`: pages of a result that was too large to be shown whole."""

from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from typing import Any, Final

from aggregator.domain.call_record import Status
from aggregator.domain.errors import BadArguments, CallRefused
from aggregator.gateway.meta.tool import MetaTool, MetaToolCall, meta_record
from aggregator.results.gateway.keeper import NoSuchResult, PageRequest
from aggregator.results.read.read import BadRead

READ_RESULT: Final = "read_result"
_HANDLE: Final = "handle"
_DIGITS: Final = 16

RECORD: Final = meta_record(
    READ_RESULT, "Read on in a cut result, which says how", {_HANDLE: {"type": "string"}}, (_HANDLE,)
)
# A cut result names them: only who meets one pays for them.
_UNLISTED: Final = {
    "offset": {"type": "integer"},
    "path": {"type": "string"},
    "grep": {"type": "string"},
    "limit": {"type": "integer"},
    "context": {"type": "integer"},
    "case": {"type": "boolean"},
    "count": {"type": "boolean"},
    "columns": {"type": ["array", "string"], "items": {"type": "string"}},
    "where": {"type": ["string", "object", "array"]},
}


class UnknownResult(CallRefused):
    """The handle is unknown to this caller."""

    code = "unknown_result"
    status = 404
    outcome: Status = "invalid"
    advice = ""


async def read_result(asking: MetaToolCall) -> str:
    """Return a page of a kept result.

    Raises:
        UnknownResult: there is no such result for this caller, or no longer.
        BadArguments: there is no such part of it.
    """
    given = asking.arguments
    # Of JSON, 12.0 is a whole number as well.
    numbers = ("offset", "limit", "context")
    offset, limit, context = (None if given.get(name) is None else int(given[name]) for name in numbers)
    others = {name: given.get(name) for name in ("path", "grep", "case", "count", "columns", "where")}
    asked = PageRequest(offset=offset, limit=limit, context=context, **others)
    allowed = partial(asking.view.may_read_on, asking.resolver.catalog)
    try:
        page = await asking.keeper.page(asking.call.principal, given[_HANDLE], asked, allowed)
    except NoSuchResult as error:
        raise UnknownResult(READ_RESULT, str(error)) from None
    except BadRead as error:
        raise BadArguments(READ_RESULT, str(error)) from None
    await asking.note_kept(page.kept)
    return page.text


def without_handle(arguments: Any) -> Any:
    """Return the arguments of a call as they may be recorded: a digest in place of the handle, which is a secret."""
    if not isinstance(arguments, Mapping) or _HANDLE not in arguments:
        return arguments
    digest = sha256(str(arguments[_HANDLE]).encode("utf-8", "replace")).hexdigest()[:_DIGITS]
    return {**arguments, _HANDLE: f"sha256:{digest}"}


TOOL: Final = MetaTool(RECORD, read_result, _UNLISTED)
