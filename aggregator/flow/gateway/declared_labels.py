"""The labels that a result declares: its server's description of the data in it.

This file decides. Law: a server's declaration only adds labels; silence, or a "no", removes none. So it is read from
any server, trusted or not, in every known place:

| by whom | where | what |
| --- | --- | --- |
| SEP-1913, a proposal | `annotations` or `_meta.annotations` of the result or a block | the hints, `returnMetadata` |
| the draft extension it became | `_meta["io.modelcontextprotocol/trust-annotations"]` | `untrusted`, `sensitive` |
| GitHub's server, FIDES gateways | `_meta.ifc`, `_meta["com.github.ifc/labels"]` | `integrity`, `confidentiality` |
"""

from collections.abc import Mapping
from typing import Any, Final

from aggregator.policy.rules import PRIVATE, UNTRUSTED

_NOTHING: Final[frozenset[str]] = frozenset()
_META: Final = "_meta"
_ANNOTATIONS: Final = "annotations"
_TRUST: Final = "io.modelcontextprotocol/trust-annotations"
_IFC: Final = ("ifc", "com.github.ifc/labels")
# The members of a result that contain blocks, and the members of a block that contain another.
_LISTS: Final = ("content", "contents", "messages")
_INNER: Final = ("resource", "content")
_PUBLIC: Final = frozenset({"public", "none", "normal", "operational", "low"})
# Words of one member that are read: permitted readers, or kinds of data. More words mean that it is not public.
_WORDS: Final = 100


def declared_labels(result: Mapping[str, Any]) -> frozenset[str]:
    """Return the labels that a result says of itself; that takes longer with each block of it."""
    found = _said(result)
    for name in _LISTS:
        blocks = result.get(name)
        for block in blocks if type(blocks) is list else ():
            if type(block) is dict:
                found |= _said(block)
                for key in _INNER:
                    inner = block.get(key)
                    if type(inner) is dict:
                        found |= _said(inner)
    return found


def _said(holder: Mapping[str, Any]) -> frozenset[str]:
    """Return the labels that one object with `_meta` or `annotations` says of itself."""
    meta, annotations = holder.get(_META), holder.get(_ANNOTATIONS)
    if meta is None and annotations is None:
        return _NOTHING
    found = _hinted(annotations)
    if isinstance(meta, dict):
        found |= _hinted(meta) | _hinted(meta.get(_ANNOTATIONS)) | _classified(meta.get(_TRUST))
        for key in _IFC:
            found |= _flowing(meta.get(key))
    return found


def _hinted(said: Any) -> frozenset[str]:
    """Return the labels from the hints of SEP-1913."""
    if not isinstance(said, dict):
        return _NOTHING
    untrusted = said.get("openWorldHint") is True or said.get("maliciousActivityHint") is True
    private = said.get("privateHint") is True or _word(said.get("sensitiveHint")) in ("medium", "high")
    returned = said.get("returnMetadata")
    if isinstance(returned, dict):
        untrusted = untrusted or _word(returned.get("source")).startswith("untrusted")
        private = private or _is_kept(returned.get("sensitivity"))
    return _labels(untrusted=untrusted, private=private)


def _classified(said: Any) -> frozenset[str]:
    """Return the labels from the extension `trust-annotations`."""
    if not isinstance(said, dict):
        return _NOTHING
    return _labels(untrusted=said.get("untrusted") is True, private=said.get("sensitive") is True)


def _flowing(said: Any) -> frozenset[str]:
    """Return what labels of information flow say."""
    if not isinstance(said, dict):
        return _NOTHING
    untrusted = _word(said.get("integrity")) == "untrusted"
    return _labels(untrusted=untrusted, private=_is_kept(said.get("confidentiality")))


def _labels(*, untrusted: bool, private: bool) -> frozenset[str]:
    return frozenset(label for label, said in ((UNTRUSTED, untrusted), (PRIVATE, private)) if said)


def _is_kept(said: Any) -> bool:
    """Return whether a text, or one in a list or an object, is a word for data that is not public."""
    if isinstance(said, list | dict) and len(said) > _WORDS:
        return True
    every = said if isinstance(said, list | dict) else [said]
    return any(_word(one) not in _PUBLIC for one in every if isinstance(one, str) and one)


def _word(said: Any) -> str:
    return said.lower() if isinstance(said, str) else ""
