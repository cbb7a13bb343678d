"""Request members that some servers would take for others: `Arguments` for `arguments`.

Decoders that ignore the case of names (Go's `encoding/json`) take the last of the two, so that a policy would decide
about one and the server would act on the other.
"""

from collections.abc import Mapping
from typing import Any, Final

from aggregator.domain.errors import INVALID_PARAMS, HostError
from aggregator.domain.text.caseless import caseless

_MEMBERS: Final = frozenset(
    {"_meta", "argument", "arguments", "context", "inputResponses", "name", "ref", "requestState", "task", "type"}
    | {"uri"}
)
_PROGRESS: Final = "progressToken"


def refuse_look_alikes(params: Mapping[str, Any]) -> None:
    """Refuse a request with a member that differs only in case from one with a meaning.

    Raises:
        HostError: there is one in the params, in `ref` or in `_meta`.
    """
    _look(params)
    ref, meta = params.get("ref"), params.get("_meta")
    if isinstance(ref, dict):
        _look(ref)
    if isinstance(meta, dict):
        for name in meta:
            # All its spellings have the same length, which excludes most names cheaply.
            if len(name) == len(_PROGRESS) and name != _PROGRESS and caseless(name) == _PROGRESS.lower():
                raise _refused(name, _PROGRESS)


def _look(holder: Mapping[str, Any]) -> None:
    if _MEMBERS.issuperset(holder):
        return
    for name in holder:
        if name not in _MEMBERS and (meant := _BY_FOLD.get(caseless(name))) is not None:
            raise _refused(name, meant)


def _refused(name: str, meant: str) -> HostError:
    said = f"Some servers take {name!a:.80} for `{meant}`: leave it out, or write `{meant}`."
    return HostError(INVALID_PARAMS, said)


_BY_FOLD: Final = {caseless(name): name for name in _MEMBERS}
