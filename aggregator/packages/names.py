"""Names of packages and images, and the name that a server gets from one.

Law: a name that is accepted here cannot be an option, a path or an address for the program that it is handed to.
"""

import re
from typing import Final

from aggregator.config.servers.names import usable
from aggregator.packages.errors import PackageError

_NPM: Final = re.compile(r"(@[a-z0-9~][a-z0-9._~-]*/)?[a-z0-9~_][a-z0-9._~-]*", re.IGNORECASE)
_PYPI: Final = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?", re.IGNORECASE)
_EXTRAS: Final = re.compile(r"\[[a-z0-9._,-]+\]", re.IGNORECASE)
_NUGET: Final = re.compile(r"[A-Za-z0-9_]+([.-][A-Za-z0-9_]+)*")
_IMAGE: Final = re.compile(
    r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?/)?"
    r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
_VERSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_!-]*")
_REGISTRY_NAME: Final = re.compile(r"[A-Za-z0-9.-]+/[A-Za-z0-9._-]+")
_LONGEST: Final = 300
# Words that only mark an MCP server.
_PLAIN: Final = re.compile(r"(^|[-_.])(mcp|server)(?=[-_.]|$)", re.IGNORECASE)

_FORMS: Final = {
    "npm": (_NPM, "npm package", "@scope/name"),
    "pypi": (_PYPI, "PyPI package", "name"),
    "nuget": (_NUGET, "NuGet package", "Name.Of.Package"),
    "oci": (_IMAGE, "container image", "ghcr.io/owner/name:1.0"),
}


def checked_name(kind: str, name: str) -> str:
    """Return the name of a package. Raises PackageError when it is none of this kind."""
    form, what, example = _FORMS[kind]
    plain = _EXTRAS.sub("", name, count=1) if kind == "pypi" else name
    if len(name) > _LONGEST or not form.fullmatch(plain):
        raise PackageError(f"{name!r:.80} is not the name of a {what}. Write one such as {example}.")
    return name


def checked_version(version: str) -> str:
    """Return a version. Raises PackageError when it is a range, or no version at all."""
    if len(version) > _LONGEST or not _VERSION.fullmatch(version):
        raise PackageError(f"{version!r:.80} is not a version. Write one such as 1.2.3, or leave it out.")
    return version


def is_registry_name(text: str) -> bool:
    """Tell whether a text has the form of a name in an MCP Registry: `io.github.owner/name`."""
    return _REGISTRY_NAME.fullmatch(text) is not None and "." in text.partition("/")[0]


def short_name(name: str) -> str:
    """Return a name for a server of this package: `@modelcontextprotocol/server-everything` is `everything`."""
    last = name.partition("@sha256:")[0].rsplit("/", 1)[-1]
    last = last.partition(":")[0].partition("[")[0]
    plain = _PLAIN.sub("", last).strip("-_.")
    return usable(plain) or usable(last) or "server"
