"""Hints for words of `aggregator add` in another order, or of another kind: an address without a name, a program in
place of the name, a package.

Rule: a hint repeats the name of a program or package only. An address or another argument may hold a secret.
"""

import re
import shutil
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

from aggregator.config.servers.names import usable
from aggregator.packages.errors import PackageError
from aggregator.packages.names import short_name
from aggregator.packages.source import read_source

# Programs that start servers, with the words before a package.
_PROGRAMS: Final = {
    "npx": ("npx", "-y"),
    "uvx": ("uvx",),
    "bunx": ("bunx",),
    "pipx": ("pipx", "run"),
    "docker": ("docker", "run", "-i", "--rm"),
    "podman": ("podman", "run", "-i", "--rm"),
    "uv": ("uv", "run"),
    "deno": ("deno", "run"),
    **{name: (name,) for name in ("node", "python", "python3", "py", "bun", "java", "dotnet", "sh", "bash")},
}
# Options of programs before the program that they start.
_STARTS: Final = {"python": "-m", "python3": "-m", "py": "-m", "java": "-jar"}
# Sites with pages about packages: the path of a page, and the kind of the package.
_PAGES: Final = {
    "www.npmjs.com": (re.compile("/package/(.+)"), "npm"),
    "npmjs.com": (re.compile("/package/(.+)"), "npm"),
    "pypi.org": (re.compile("/project/([^/]+)"), "pypi"),
    "hub.docker.com": (re.compile("/r/([^/]+/[^/]+)"), "oci"),
}
_CODE: Final = frozenset({"github.com", "gitlab.com", "bitbucket.org", "codeberg.org"})
# Labels of a host that name no service.
_GENERAL: Final = frozenset({"mcp", "api", "www", "sse", "server", "app"})
_FILES: Final = (".json", ".mcpb", ".dxt")
# A word that can only be the name of a package, an image or a file; the end of the name of a program's text.
_PACKAGE: Final = re.compile(r"[@A-Za-z0-9._/:+-]{1,100}")
_SCRIPT: Final = re.compile(r"\.(?:[cm]?[jt]s|py|sh|jar|dll)$", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"https?://", re.IGNORECASE)


def hint(words: Sequence[str]) -> str | None:
    """Return what to write in place of these words, given without `--from`; None if they need no hint."""
    if not words:
        return None
    first, rest = words[0], words[1:]
    if _ADDRESS.match(first):
        return _named(first)
    if source := _source(first):
        return f"{first!r:.80} is no name for a server. Write `aggregator add --from {source}`."
    if first in _PROGRAMS and rest and not _ADDRESS.match(rest[0]) and shutil.which(rest[0]) is None:
        return _after_name(first, rest)
    return None


def _named(address: str) -> str:
    """Return how to add a server by its address, to which a name is missing."""
    try:
        parts = urlsplit(address)
        host = (parts.hostname or "").lower()
    except ValueError:
        host = ""
    if host in _PAGES:
        page, kind = _PAGES[host]
        found = page.match(unquote(parts.path))
        if found is not None and (source := _source(f"{kind}:{found[1].strip('/')}")):
            return f"That is a page about a package. Write `aggregator add --from {source}`."
    if host in _CODE:
        return (
            "That is a page about code, not the address of a server. Its README says how it starts: write "
            "`aggregator add NAME -- COMMAND ARGS...`."
        )
    labels = [one for one in host.split(".")[:-1] if one not in _GENERAL] or host.split(".")[:1]
    name = usable(labels[0]) if re.search("[a-z]", labels[0]) else None
    return f"A name for the server is missing. Write `aggregator add {name or 'NAME'} URL`."


def _source(word: str) -> str | None:
    """Return what `--from` takes for a word that is a package, a file or a name in the registry; None for another."""
    text = f"npm:{word}" if word.startswith("@") else word
    if not (":" in text or "/" in text or text.lower().endswith(_FILES)):
        return None
    try:
        read_source(text)
    except PackageError:
        return None
    return text


def _after_name(program: str, rest: Sequence[str]) -> str:
    """Return how to add a server that a program starts, which stands in place of the server's name."""
    before = _PROGRAMS[program]
    words = [word for word in rest if word != "--"]
    if words[:1] == [_STARTS.get(program)]:
        before = (*before, words[0])
    package = next((word for word in words if word not in before), "")
    name, shown = "NAME", "..."
    # The word after another option may be its value.
    if not package.startswith("-") and _PACKAGE.fullmatch(package):
        name = name if _SCRIPT.search(package) else short_name(package.rpartition("@")[0] or package)
        shown = package if words[-1] == package else f"{package} ..."
    return (
        f"{program} is the program, and the server's name is missing. Write "
        f"`aggregator add {name} -- {' '.join(before)} {shown}`."
    )
