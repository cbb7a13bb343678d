"""What is known of a tool's nature: the upstream's annotations where it is trusted, and the admin's own word.

Law: what an untrusted upstream says of its tools does not count; without a word that counts, the worst is assumed.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

Trait = Literal["destructive", "open_world", "read_only", "idempotent"]
TRAITS: Final[tuple[Trait, ...]] = ("destructive", "open_world", "read_only", "idempotent")


class ToolTraits(NamedTuple):
    """A tool that is `read_only` is never `destructive`, and repeating it is harmless (`idempotent`)."""

    destructive: bool = True
    open_world: bool = True
    read_only: bool = False
    idempotent: bool = False


WORST: Final = ToolTraits()


def claimed(definition: Mapping[str, Any], *, trusted: bool) -> ToolTraits:
    """The traits a tool's `annotations` claim (S/schema, ToolAnnotations: the defaults there are the worst case)."""
    if not trusted or not isinstance(hints := definition.get("annotations"), Mapping):
        return WORST
    read_only = hints.get("readOnlyHint") is True
    return ToolTraits(
        destructive=not read_only and hints.get("destructiveHint") is not False,
        open_world=hints.get("openWorldHint") is not False,
        read_only=read_only,
        idempotent=read_only or hints.get("idempotentHint") is True,
    )


def declared(traits: ToolTraits, *, read_only: bool, idempotent: bool) -> ToolTraits:
    """`traits` with what the admin declares of the tool, which counts in any case."""
    if read_only:
        return traits._replace(destructive=False, read_only=True, idempotent=True)
    return traits._replace(idempotent=True) if idempotent else traits
