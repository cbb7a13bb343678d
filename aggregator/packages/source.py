"""The forms of `--from SOURCE`: a file, a name in a registry, or a package of a kind that is named before a colon."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from aggregator.packages.errors import PackageError
from aggregator.packages.names import checked_name, checked_version, is_registry_name, short_name
from aggregator.packages.plan import EntryPlan
from aggregator.packages.programs import program_of

SourceKind = Literal["file", "bundle", "registry", "npm", "pypi", "oci", "nuget"]

_SCHEMES: Final[Mapping[str, SourceKind]] = {
    "npm": "npm",
    "npx": "npm",
    "pypi": "pypi",
    "uvx": "pypi",
    "pip": "pypi",
    "oci": "oci",
    "docker": "oci",
    "nuget": "nuget",
    "registry": "registry",
    "file": "file",
}
BUNDLES: Final = (".mcpb", ".dxt")
_FORMS: Final = (
    "a server.json file, a bundle (FILE.mcpb), npm:PACKAGE, pypi:PACKAGE, oci:IMAGE, nuget:PACKAGE, or a name in the "
    "MCP Registry such as io.github.owner/name"
)


@dataclass(frozen=True, slots=True)
class PackageSource:
    """A path, or a name with a version, which is empty for the latest."""

    kind: SourceKind
    name: str
    version: str = ""


def read_source(text: str) -> PackageSource:
    """Return the source in a text. Raises PackageError if it has no known form."""
    scheme, colon, rest = text.partition(":")
    kind = _SCHEMES.get(scheme.lower()) if colon else None
    if kind is None:
        if text.lower().endswith(BUNDLES) and "://" not in text:
            return PackageSource("bundle", text)
        if os.path.exists(text) or text.lower().endswith(".json"):
            return PackageSource("file", text)
        name, _, version = text.partition("@")
        if is_registry_name(name):
            return PackageSource("registry", name, checked_version(version) if version else "")
        raise PackageError(f"{text!r:.100} is nothing that --from knows. Give {_FORMS}.")
    if kind == "file":
        return PackageSource("bundle" if rest.lower().endswith(BUNDLES) else "file", rest)
    if kind == "oci":
        return PackageSource("oci", checked_name("oci", rest.removeprefix("//")))
    name, version = _split(rest)
    if kind == "registry":
        if not is_registry_name(name):
            raise PackageError(f"{name!r:.100} is not a name in a registry. Write one such as io.github.owner/name.")
    else:
        checked_name(kind, name)
    return PackageSource(kind, name, version)


def package_plan(source: PackageSource) -> EntryPlan:
    """Return the plan for a package known by its name alone."""
    made = program_of(source.kind, source.name, {"version": source.version})
    notes = made.notes
    if not source.version and source.kind != "oci":
        notes = (*notes, f"Each start takes its newest version; {source.kind}:{source.name}@VERSION stays at one.")
    return EntryPlan(short_name(source.name), made.shown, made.program, notes=notes, downloads=True)


def _split(text: str) -> tuple[str, str]:
    """Return name and version of `name@version`, `@scope/name@version` or `name==version`."""
    name, separator, version = text.partition("==")
    if not separator:
        at = text.rfind("@")
        name, version = (text[:at], text[at + 1 :]) if at > 0 else (text, "")
    return name, checked_version(version) if version and version != "latest" else ""
