"""The annotations of a tool that count: the upstream's if it is trusted, and those the operator declares.

Law: claims of an untrusted upstream do not count; without a claim that counts, the worst is assumed.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

Annotation = Literal["destructive", "open_world", "read_only", "idempotent"]
ANNOTATIONS: Final[tuple[Annotation, ...]] = ("destructive", "open_world", "read_only", "idempotent")


class ToolAnnotations(NamedTuple):
    """The annotations of a tool that count. A `read_only` tool is never `destructive`, and repeating it is harmless.

    `says_open_world`: its server says that it reaches the open world; `open_world` is also true without any claim.
    """

    destructive: bool = True
    open_world: bool = True
    read_only: bool = False
    idempotent: bool = False
    says_open_world: bool = False


WORST: Final = ToolAnnotations()


def claimed_annotations(definition: Mapping[str, Any], *, trusted: bool) -> ToolAnnotations:
    """Return the claims of a tool's `annotations` (S/schema, ToolAnnotations: the defaults there are the worst
    case).
    """
    if not trusted or not isinstance(hints := definition.get("annotations"), Mapping):
        return WORST
    read_only = hints.get("readOnlyHint") is True
    return ToolAnnotations(
        destructive=not read_only and hints.get("destructiveHint") is not False,
        open_world=hints.get("openWorldHint") is not False,
        read_only=read_only,
        idempotent=read_only or hints.get("idempotentHint") is True,
        says_open_world=hints.get("openWorldHint") is True,
    )


def with_declared(annotations: ToolAnnotations, *, read_only: bool, idempotent: bool) -> ToolAnnotations:
    """Return the annotations with those that the operator declares of the tool, which count in any case."""
    if read_only:
        return annotations._replace(destructive=False, read_only=True, idempotent=True)
    return annotations._replace(idempotent=True) if idempotent else annotations


# Tells whether the configuration trusts a server, by its id.
IsTrusted = Callable[[str], bool]


Trusted = IsTrusted | Mapping[str, bool] | None


def is_trusted(trusted: Trusted, server: str) -> bool:
    """Tell whether a server's annotations count; they do not unless `trusted` says so."""
    if trusted is None:
        return False
    answer: object = trusted(server) if callable(trusted) else trusted.get(server, False)
    return answer is True
