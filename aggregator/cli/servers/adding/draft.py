"""The draft of an entry: from the words of the command line, or from a source with the questions it asks."""

import os
import shutil
import sys
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.writer import say
from aggregator.cli.servers.adding.request import AddRequest
from aggregator.cli.servers.bundle_folders import bundles_folder
from aggregator.config.files.jsonfile import read_object
from aggregator.domain.errors import OperatorError
from aggregator.packages.bundle_archive import LARGEST_FILE, BundleArchive, read_archive, read_archive_file
from aggregator.packages.bundle_manifest import bundle_plan, read_manifest
from aggregator.packages.bundle_signature import check_signature
from aggregator.packages.carried_name import npm_name, pypi_name
from aggregator.packages.download import DownloadLimits, download, is_loopback
from aggregator.packages.errors import PackageError
from aggregator.packages.plan import EntryPlan
from aggregator.packages.registry import look_up
from aggregator.packages.server_json import BundleReference, ServerChoice, ServerDescription, read_description
from aggregator.packages.source import PackageSource, package_plan, read_source

_DOWNLOAD_SECONDS: Final = 300.0
_DIGEST_FILE: Final = ".aggregator-bundle"
_SHORT: Final = 12
_KINDS: Final = ("npm", "pypi", "oci", "nuget", "mcpb", "remote")


@dataclass(frozen=True, slots=True)
class UnpackedBundle:
    """A bundle that the entry runs from: its archive, and the folder that it belongs into."""

    archive: BundleArchive
    folder: Path

    def unpack(self) -> bool:
        """Unpack it unless that was done before; return whether it was done now. Raises PackageError."""
        if self.folder.exists():
            return False
        self.archive.unpack(self.folder)
        try:
            (self.folder / _DIGEST_FILE).write_text(self.archive.digest, encoding="ascii")
        except OSError as error:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise PackageError(f"{self.folder} cannot be written: {error.strerror or error}.") from None
        return True

    def remove(self) -> None:
        """Remove the folder again."""
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class EntryDraft:
    """The plan that a source gives, and the bundle that has to be unpacked for it."""

    plan: EntryPlan
    bundle: UnpackedBundle | None = None
    notes: tuple[str, ...] = ()


def drafted(request: AddRequest, registry: str) -> EntryDraft:
    """Return the draft of a request with `source`; names are looked up in the registry at this address.

    Raises:
        OperatorError: the source cannot be used.
    """
    assert request.source is not None
    draft = _from_source(read_source(request.source), request, registry)
    if request.more and draft.plan.program is None:
        raise OperatorError(f"{draft.plan.origin} is reached by an address and takes no arguments.")
    return draft


def _from_source(source: PackageSource, request: AddRequest, registry: str) -> EntryDraft:
    if source.kind == "bundle":
        return _bundle(read_archive_file(Path(os.path.expanduser(source.name))))
    if source.kind == "registry":
        if not request.as_json:
            say(f"aggregator: asking {registry} for {source.name}", file=sys.stderr)
        found = run_loop(look_up(registry, source.name, source.version or "latest"))
        return _chosen(found, request.use, loopback=is_loopback(registry))
    if source.kind == "file":
        path = Path(os.path.expanduser(source.name))
        if not path.is_file():  # reading a pipe or a device could block without end
            raise PackageError(f"There is no file {path}. Name a server.json file after --from.")
        return _chosen(read_description(read_object(path), str(path)), request.use, loopback=True)
    return _described(source, registry) or EntryDraft(package_plan(source))


def _described(source: PackageSource, registry: str) -> EntryDraft | None:
    """Return the draft of the description that a package names; None if it names none, or that does not fit.

    The description has to name the package in turn, and to have the wanted version.
    """
    if source.kind == "npm":
        name = npm_name(source.name, source.version)
    else:
        name = run_loop(pypi_name(source.name)) if source.kind == "pypi" else None
    if name is None:
        return None
    try:
        found = run_loop(look_up(registry, name))
    except PackageError as error:
        said = f"It is {name} in the MCP Registry, whose description was not used: {error}"
        plan = package_plan(source)
        return EntryDraft(replace(plan, notes=(*plan.notes, said)))
    wanted = f"{source.kind}:{source.name}@{source.version}"
    for choice in found.choices:
        if choice.plan is not None and (
            choice.shown == wanted or (not source.version and choice.shown.startswith(wanted))
        ):
            return EntryDraft(choice.plan, notes=(f"What it needs is told by {name} in the MCP Registry.",))
    return None


def _chosen(found: ServerDescription, use: str | None, *, loopback: bool) -> EntryDraft:
    """Return the draft of one of the choices of a description: the first whose program is on this machine."""
    if use is not None and use not in _KINDS:
        raise OperatorError(f"--use {use!r:.40} is not known. Write one of {', '.join(_KINDS)}.")
    fitting = [choice for choice in found.choices if use in (None, choice.kind)]
    if not fitting:
        has = ", ".join(dict.fromkeys(choice.kind for choice in found.choices))
        why = f" {' '.join(found.refused)}" if found.refused else ""
        raise PackageError(f"{found.name} has nothing of the kind {use}; it has {has}.{why}")
    choice = next((choice for choice in fitting if _has_program(choice)), fitting[0])
    notes = [f"Left out: {refused}" for refused in found.refused]
    others = list(dict.fromkeys(f"--use {one.kind}" for one in found.choices if one.kind != choice.kind))
    if others:
        notes.append(f"Used is {choice.kind} ({choice.shown}); for another: {', '.join(others)}.")
    if choice.bundle is not None:
        draft = _downloaded(choice.bundle, loopback=loopback)
        return replace(draft, notes=(*notes, *found.notes))
    assert choice.plan is not None
    return EntryDraft(choice.plan, notes=tuple(notes))


def _has_program(choice: ServerChoice) -> bool:
    program = choice.plan.program if choice.plan is not None else None
    first = program.command[0] if program is not None and program.command else None
    return not isinstance(first, str) or shutil.which(first) is not None


def _downloaded(reference: BundleReference, *, loopback: bool) -> EntryDraft:
    """Fetch a bundle that a description names; only with a digest may another host send it."""
    limits = DownloadLimits(LARGEST_FILE, _DOWNLOAD_SECONDS, loopback=loopback, elsewhere=reference.sha256 is not None)
    say(f"aggregator: fetching {reference.url.partition('?')[0]!r:.200}", file=sys.stderr)
    answer = run_loop(download(reference.url, limits, "The bundle's address"))
    if answer.status != 200:
        raise PackageError(f"The bundle's address answered with status {answer.status}.")
    if reference.sha256 is not None and sha256(answer.body).hexdigest() != reference.sha256:
        raise PackageError("The bundle is not the one that was described: its SHA-256 digest is another one.")
    name = reference.url.partition("?")[0].rpartition("/")[2][:100] or "the bundle"
    draft = _bundle(read_archive(answer.body, name))
    if reference.sha256 is None:
        return replace(draft, notes=("The description has no digest of the bundle, so it was not compared.",))
    return draft


def _bundle(archive: BundleArchive) -> EntryDraft:
    manifest = read_manifest(archive.manifest(), archive.origin)
    if manifest.entry_point and manifest.entry_point not in archive.names():
        raise PackageError(f"{archive.origin} has no {manifest.entry_point!r:.120}, which its manifest starts.")
    signature = check_signature(archive.content, archive.signature)
    folder = _folder_for(manifest.folder, archive.digest)
    plan = bundle_plan(manifest, folder)
    notes = (*plan.notes, f"The bundle is {signature}.", f"It is unpacked into {folder}.")
    return EntryDraft(replace(plan, notes=notes), UnpackedBundle(archive, folder))


def _folder_for(name: str, digest: str) -> Path:
    """Return the folder of a bundle, by its name and version, unless another bundle has it already."""
    bundles = bundles_folder(os.environ)
    folder = bundles / name
    if folder.exists() and _digest_of(folder) != digest:
        return bundles / f"{name}-{digest[:_SHORT]}"
    return folder


def _digest_of(folder: Path) -> str:
    try:
        with (folder / _DIGEST_FILE).open("rb") as file:
            return file.read(100).decode("ascii", "replace")
    except OSError:
        return ""
