"""Names of skills and their URIs (SEP-2640): `acme/refunds` is the skill whose SKILL.md is `skill://acme/refunds/SKILL.md`.

Rule: a name is a function of the URI alone. Of another scheme it is the URI without `/SKILL.md`.
"""

from typing import Final

SKILL_FILE: Final = "SKILL.md"
_END: Final = f"/{SKILL_FILE}"
_SCHEME: Final = "skill://"
# The longest pattern of a policy can name so many levels; deeper ones have no names.
_LEVELS: Final = 250


def skill_name(uri: str) -> str | None:
    """Return the name of the skill whose SKILL.md has this URI; None if it is no URI of a SKILL.md."""
    return directory_name(uri.removesuffix(_END)) or None if uri.endswith(_END) else None


def directory_name(uri: str) -> str:
    """Return the name that a skill in the directory of this URI has."""
    return uri.removeprefix(_SCHEME)


def directory_uri(name: str) -> str:
    """Return the URI of the directory of the skill of that name, without a slash at its end."""
    return name if "://" in name else _SCHEME + name


def skill_uri(name: str) -> str:
    """Return the URI of the SKILL.md of the skill of that name."""
    return directory_uri(name) + _END


def is_skill_scheme(uri: str) -> bool:
    """Tell whether a URI has the scheme reserved for skills."""
    return uri.startswith(_SCHEME)


def directories(uri: str) -> tuple[str, ...]:
    """Return the names that skills in the directories round a file have, the outermost first."""
    scheme, mark, rest = uri.partition("://")
    if not mark:
        return ()
    ends = rest.split("?", 1)[0].split("#", 1)[0].split("/", _LEVELS)[:-1]
    head = "" if scheme == "skill" else f"{scheme}://"
    found: list[str] = []
    at = ""
    for step in ends:
        at = f"{at}/{step}" if found or at else step
        found.append(at)
    return tuple(f"{head}{name}" for name in found if name)
