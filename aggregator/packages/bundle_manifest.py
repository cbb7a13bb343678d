"""The manifest of an MCPB bundle turned into the plan of an entry.

Read are `manifest_version` (once `dxt_version`) 0.1 to 0.4: https://github.com/anthropics/mcpb, MANIFEST.md.
"""

import json
import ntpath
import os
import posixpath
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aggregator.packages.errors import PackageError
from aggregator.packages.inputs import text_of
from aggregator.packages.names import short_name
from aggregator.packages.plan import AskedValue, EntryPlan, PlannedArgument, PlannedProgram, Text, ValueKind, one_line

MANIFEST: Final = "manifest.json"
_VERSIONS: Final = ("0.1", "0.2", "0.3", "0.4")
_KINDS: Final = ("node", "python", "binary", "uv")
_VARIABLE: Final = re.compile(r"\$\{([^{}]{1,200})\}")
_USER: Final = "user_config."
_VALUE_KINDS: Final[Mapping[str, ValueKind]] = {
    "number": "number",
    "boolean": "boolean",
    "directory": "filepath",
    "file": "filepath",
}
_SAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MOST: Final = 500


@dataclass(frozen=True, slots=True)
class BundleManifest:
    """A manifest that can be used. `entry_point` is a path in the bundle, with slashes."""

    name: str
    version: str
    title: str
    description: str
    kind: str
    entry_point: str
    notes: tuple[str, ...]
    raw: Mapping[str, Any]

    @property
    def folder(self) -> str:
        """The name of the folder that the bundle is unpacked into."""
        name, version = (_SAFE.sub("-", text).strip("-.")[:80] for text in (self.name, self.version))
        return f"{name or 'bundle'}-{version or '0'}"


def read_manifest(content: bytes, origin: str) -> BundleManifest:
    """Return the manifest in the bundle `origin`.

    Raises:
        PackageError: it is not a manifest, or not one that can be used on this machine.
    """
    try:
        root = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise PackageError(f"{origin} has a {MANIFEST} that is not JSON.") from None
    if not isinstance(root, dict):
        raise PackageError(f"{origin} has a {MANIFEST} that is no JSON object.")
    server = root.get("server")
    name, version = text_of(root.get("name")), text_of(root.get("version"))
    if not isinstance(server, dict) or not name:
        raise PackageError(f"{origin} has a {MANIFEST} without `name` or `server`, so it is no bundle of a server.")
    kind = text_of(server.get("type"))
    if kind not in _KINDS:
        raise PackageError(f"{origin} is for a runtime {kind!r:.40}; known are {', '.join(_KINDS)}.")
    written = text_of(root.get("manifest_version")) or text_of(root.get("dxt_version"))
    notes = []
    if written not in _VERSIONS:
        notes.append(f"Its manifest has the version {written!r:.20}; known are {', '.join(_VERSIONS)}.")
    compatible = root.get("compatibility")
    platforms = compatible.get("platforms") if isinstance(compatible, dict) else None
    if isinstance(platforms, list) and platforms and sys.platform not in platforms:
        listed = one_line(", ".join(map(text_of, platforms)), 80)
        raise PackageError(f"{origin} is for {listed}, and this machine is {sys.platform}.")
    return BundleManifest(
        one_line(name, 100),
        one_line(version, 60),
        one_line(text_of(root.get("display_name")), 100),
        one_line(text_of(root.get("description"))),
        kind,
        _inner_path(text_of(server.get("entry_point")), origin),
        tuple(notes),
        root,
    )


def bundle_plan(manifest: BundleManifest, folder: Path) -> EntryPlan:
    """Return the plan of an entry for a bundle that is, or will be, unpacked in a folder.

    Raises:
        PackageError: its program lies outside of the bundle.
    """
    server = manifest.raw["server"]
    config = _for_this_platform(server.get("mcp_config"))
    reader = _ManifestReader(manifest, folder)
    command, arguments = _program(manifest, config, reader)
    env = config.get("env")
    variables = env.items() if isinstance(env, Mapping) else ()
    texts = {name: reader.text(text_of(value)) for name, value in list(variables)[:_MOST] if _is_variable(name)}
    program = PlannedProgram(
        command,
        tuple(arguments),
        texts,
        # Arguments may be paths in the bundle, written from its folder.
        (str(folder),),
    )
    return EntryPlan(
        short_name(manifest.name),
        f"{manifest.name} {manifest.version}".strip(),
        program,
        title=manifest.title,
        description=manifest.title or manifest.description,
        notes=manifest.notes,
        downloads=manifest.kind == "uv",
    )


def _program(
    manifest: BundleManifest, config: Mapping[str, Any], reader: "_ManifestReader"
) -> tuple[Text, list[PlannedArgument]]:
    given = text_of(config.get("command"))
    if not given:
        return _usual_program(manifest, reader)
    args = config.get("args")
    arguments = [
        PlannedArgument((reader.text(text_of(arg)),), separate=True)
        for arg in (args if isinstance(args, list) else [])[:_MOST]
    ]
    text = reader.text(given)
    written = text[0] if text and isinstance(text[0], str) else ""
    whole = "".join(part if isinstance(part, str) else "1" for part in text)
    if "/" in whole or "\\" in whole:
        if not os.path.isabs(whole) and not ntpath.isabs(whole):
            _inner_path(whole, manifest.name)
            text = (f"{reader.folder}{os.sep}{written}", *text[1:])
        elif not _is_within(whole, reader.folder) and "${__dirname}" in given:
            raise PackageError(f"{manifest.name} names a program outside of the bundle.")
    elif manifest.kind == "python" and whole in ("python", "python3"):
        text = (_python(whole),)
    elif manifest.kind == "binary" and whole == manifest.entry_point:
        text = (f"{reader.folder}{os.sep}{whole}",)
    return text, arguments


def _usual_program(manifest: BundleManifest, reader: "_ManifestReader") -> tuple[Text, list[PlannedArgument]]:
    """Return the program of a manifest that leaves it to the host."""
    path = str(reader.folder / manifest.entry_point)
    if manifest.kind == "uv":
        run = ("run", "--directory", str(reader.folder), path)
        return ("uv",), [PlannedArgument(((part,),)) for part in run]
    if manifest.kind == "binary":
        return (path,), []
    return ("node" if manifest.kind == "node" else _python("python"),), [PlannedArgument(((path,),))]


def _python(named: str) -> str:
    """Return the name by which Python is found on this machine: some have `python3` alone."""
    other = "python3" if named == "python" else "python"
    return other if shutil.which(named) is None and shutil.which(other) is not None else named


class _ManifestReader:
    """A reader of texts in the manifest: `${__dirname}` and the like are replaced, `${user_config.X}` asked."""

    def __init__(self, manifest: BundleManifest, folder: Path) -> None:
        self.folder = folder
        asked = manifest.raw.get("user_config")
        self._asked = asked if isinstance(asked, Mapping) else {}
        home = Path.home()
        self._known = {
            "__dirname": str(folder),
            "HOME": str(home),
            "DESKTOP": str(home / "Desktop"),
            "DOCUMENTS": str(home / "Documents"),
            "DOWNLOADS": str(home / "Downloads"),
            "pathSeparator": os.sep,
            "/": os.sep,
        }

    def text(self, written: str) -> Text:
        """Return a text with questions in it; unknown variables stay unchanged."""
        parts: list[str | AskedValue] = []
        for part in self._parts(written):
            if isinstance(part, str) and parts and isinstance(parts[-1], str):
                parts[-1] += part
            elif part != "":
                parts.append(part)
        return tuple(parts)

    def _parts(self, written: str) -> Iterator[str | AskedValue]:
        at = 0
        for found in _VARIABLE.finditer(written):
            yield written[at : found.start()]
            name = found[1]
            key = name.removeprefix(_USER)
            if key == name:
                yield self._known.get(name, found[0])
            else:
                # One that the manifest does not declare has no value unless the user gives one.
                declared = self._asked.get(key)
                yield self._question(key, declared if isinstance(declared, Mapping) else {})
            at = found.end()
        yield written[at:]

    def _question(self, key: str, declared: Mapping[str, Any]) -> AskedValue:
        least, most = declared.get("min"), declared.get("max")
        return AskedValue(
            key,
            one_line(text_of(declared.get("title")), 80) or f"the setting {key}",
            description=one_line(text_of(declared.get("description"))),
            required=declared.get("required") is True,
            secret=declared.get("sensitive") is True,
            kind=_VALUE_KINDS.get(text_of(declared.get("type")), "string"),
            default=self._default(declared.get("default")),
            repeated=declared.get("multiple") is True,
            least=least if isinstance(least, int | float) else None,
            most=most if isinstance(most, int | float) else None,
        )

    def _default(self, value: object) -> tuple[str, ...] | None:
        values = [text_of(item) for item in (value if isinstance(value, list) else [value])[:_MOST]]
        replaced = (_VARIABLE.sub(lambda found: self._known.get(found[1], found[0]), text) for text in values if text)
        return tuple(replaced) or None


def _for_this_platform(config: object) -> Mapping[str, Any]:
    if not isinstance(config, Mapping):
        return {}
    overrides = config.get("platform_overrides")
    own = overrides.get(sys.platform) if isinstance(overrides, Mapping) else None
    return {**config, **{key: value for key, value in own.items() if value}} if isinstance(own, Mapping) else config


def _inner_path(path: str, origin: str) -> str:
    """Return a path in the bundle with slashes, as short as it can be. Raises PackageError for one that leads out."""
    plain = posixpath.normpath(path.replace("\\", "/")) if path else ""
    if plain.startswith(("../", "/")) or plain == ".." or ntpath.splitdrive(plain)[0] or "\0" in plain:
        raise PackageError(f"{origin} names a program outside of the bundle.")
    return plain


def _is_within(path: str, folder: Path) -> bool:
    return Path(os.path.normpath(path)).is_relative_to(os.path.normpath(folder))


def _is_variable(name: object) -> bool:
    return isinstance(name, str) and bool(name) and "=" not in name and name.isprintable()
