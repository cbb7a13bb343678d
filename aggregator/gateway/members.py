"""The members of a request that some servers would take for others: `Arguments` for `arguments`.

Decoders that ignore the case of names (Go's `encoding/json`) take the last of the two, so that a policy would decide
about one and the server would do the other.
"""

from collections.abc import Mapping
from typing import Any, Final

from aggregator.domain.caseless import caseless
from aggregator.domain.errors import INVALID_PARAMS, HostError

_MEMBERS: Final = frozenset(
    {"_meta", "argument", "arguments", "context", "inputResponses", "name", "ref", "requestState", "task", "type"}
    | {"uri"}
)
_OF_META: Final = frozenset({"progressToken"})


def refuse_look_alikes(params: Mapping[str, Any]) -> None:
    """Refuse a request with a member that differs only in case from one that says what is asked for.

    Raises:
        HostError: there is one, here or in `ref` or `_meta`.
    """
    _look(params, _MEMBERS)
    ref, meta = params.get("ref"), params.get("_meta")
    if isinstance(ref, dict):
        _look(ref, _MEMBERS)
    if isinstance(meta, dict):
        _look(meta, _OF_META)


def _look(holder: Mapping[str, Any], members: frozenset[str]) -> None:
    if members.issuperset(holder):
        return
    for name in holder.keys() - members:
        meant = _BY_FOLD.get(caseless(name))
        if meant in members:
            said = f"Some servers take {name!a:.80} for `{meant}`: leave it out, or write `{meant}`."
            raise HostError(INVALID_PARAMS, said)


_BY_FOLD: Final = {caseless(name): name for name in _MEMBERS | _OF_META}
