"""An MCPB file as an archive: read within limits, and unpacked so that nothing of it lands outside of its folder.

Law: the archive is checked as a whole before anything is written, and its folder is there complete or not at all.
"""

import io
import ntpath
import os
import shutil
import stat
import sys
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Final

from aggregator.domain.ordinary_files import is_reserved
from aggregator.domain.patient_files import long_path, patiently
from aggregator.domain.text.error_text import error_text
from aggregator.packages.bundle_manifest import MANIFEST
from aggregator.packages.bundle_signature import split_signature
from aggregator.packages.errors import PackageError

MIB: Final = 2**20
LARGEST_FILE: Final = 256 * MIB
_LARGEST_MANIFEST: Final = MIB
# Bytes of an archive's unpacked content.
LARGEST_CONTENT: Final = 1024 * MIB
MOST_FILES: Final = 50_000
# Programs are at most some ten times larger than their archive; below the size any ratio is harmless.
HIGHEST_RATIO: Final = 100
_HARMLESS: Final = 16 * MIB
_LONGEST_NAME: Final = 1_000
_LONGEST_PART: Final = 255
_DEEPEST: Final = 60
_PIECE: Final = MIB
_LINK_TARGET: Final = 4_096
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(frozen=True, slots=True)
class BundleArchive:
    """The content of an MCPB file without its signature, which is None for an unsigned one."""

    origin: str
    content: bytes
    signature: bytes | None
    digest: str

    def manifest(self) -> bytes:
        """Return the text of the manifest. Raises PackageError for a file that is no bundle."""
        with self._opened() as archive:
            self._checked(archive)
            try:
                found = archive.getinfo(MANIFEST)
            except KeyError:
                raise PackageError(f"{self.origin} has no {MANIFEST} at its root, so it is no bundle.") from None
            if found.file_size > _LARGEST_MANIFEST:
                raise PackageError(f"{self.origin} has a {MANIFEST} of more than 1 MiB.")
            return b"".join(self._pieces(archive, found))

    def names(self) -> frozenset[str]:
        """Return the paths of the files in it. Raises PackageError for a file that is no bundle."""
        with self._opened() as archive:
            return frozenset(info.filename for info in self._checked(archive) if not info.is_dir())

    def unpack(self, folder: Path) -> None:
        """Unpack it into a folder that is not there yet.

        Raises:
            PackageError: it is refused, or cannot be written.
        """
        with self._opened() as archive:
            infos = self._checked(archive)
            try:
                folder.parent.mkdir(parents=True, exist_ok=True)
                temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
            except OSError as error:
                raise PackageError(f"{folder} cannot be made: {error.strerror or error}.") from None
            try:
                below = max((len(info.filename) for info in infos), default=0) + 1
                self._write(archive, infos, Path(long_path(str(temporary), below)))
                temporary.chmod(0o755)
                patiently(lambda: os.rename(temporary, folder))
            except OSError as error:
                raise PackageError(f"{folder} cannot be written: {error.strerror or error}.") from None
            finally:
                shutil.rmtree(temporary, ignore_errors=True)

    def _opened(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(io.BytesIO(self.content))
        except (zipfile.BadZipFile, ValueError, EOFError, OverflowError, NotImplementedError, RuntimeError) as error:
            raise PackageError(f"{self.origin} is not a bundle: {_said(error)}.") from None

    def _checked(self, archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
        infos = archive.infolist()
        if len(infos) > MOST_FILES:
            raise PackageError(f"{self.origin} has more than {MOST_FILES:,} files.")
        whole, packed = sum(info.file_size for info in infos), len(self.content)
        if whole > LARGEST_CONTENT:
            raise PackageError(
                f"{self.origin} would take more than {LARGEST_CONTENT // MIB:,} MiB once it is unpacked."
            )
        if whole > _HARMLESS and whole > HIGHEST_RATIO * packed:
            raise PackageError(f"{self.origin} would grow to more than {HIGHEST_RATIO} times its size: it is refused.")
        taken: dict[str, bool] = {}
        for info in infos:
            fault = _fault(info) or _clash(info, taken)
            if fault is not None:
                raise PackageError(f"{self.origin} has {info.orig_filename!r:.120} in it: {fault}. It is refused.")
        return infos

    def _write(self, archive: zipfile.ZipFile, infos: list[zipfile.ZipInfo], folder: Path) -> None:
        links: list[tuple[Path, str]] = []
        for info in infos:
            target = folder.joinpath(*PurePosixPath(info.filename).parts)
            if info.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if _is_link(info):
                links.append((target, self._link_target(archive, info)))
                continue
            with target.open("xb") as file:
                for piece in self._pieces(archive, info):
                    file.write(piece)
            target.chmod(0o755 if (info.external_attr >> 16) & 0o111 else 0o644)
        # Links come last, so that no file is written through one.
        for target, points_to in links:
            target.symlink_to(points_to)
        root = os.path.realpath(folder)
        for target, _ in links:
            if not os.path.realpath(target).startswith(root + os.sep):
                raise PackageError(f"{self.origin} has the link {target.name!r:.120} in it that leads out of it.")

    def _pieces(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
        """Yield the content of a file, never more than the archive says that it has."""
        left = info.file_size
        try:
            with archive.open(info) as packed:
                while piece := packed.read(min(_PIECE, left + 1)):
                    left -= len(piece)
                    if left < 0:
                        raise PackageError(f"{self.origin} is damaged: {info.filename!r:.120} is larger than it says.")
                    yield piece
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
            raise PackageError(f"{self.origin} is damaged: {info.filename!r:.120}: {_said(error)}.") from None

    def _link_target(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> str:
        if info.file_size > _LINK_TARGET:
            raise PackageError(f"{self.origin} has the link {info.filename!r:.120} in it, whose target is too long.")
        written = b"".join(self._pieces(archive, info)).decode("utf-8", "replace")
        if sys.platform == "win32":
            raise PackageError(
                f"{self.origin} has the link {info.filename!r:.120} in it, which Windows lets few users make."
            )
        if not _stays_inside(info.filename, written):
            raise PackageError(f"{self.origin} has the link {info.filename!r:.120} in it that leads out of it.")
        return written


def read_archive(content: bytes, origin: str) -> BundleArchive:
    """Return the archive in the bytes of an MCPB file; `origin` names it for users."""
    packed, signature = split_signature(content)
    return BundleArchive(origin, packed, signature, sha256(content).hexdigest())


def read_archive_file(path: Path) -> BundleArchive:
    """Return the archive in a file. Raises PackageError when it cannot be read, or is too large."""
    try:
        if path.exists() and not path.is_file():  # reading a pipe or a device could block without end
            raise PackageError(f"{path} is not an ordinary file. Name the bundle.")
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        raise PackageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if len(content) > LARGEST_FILE:
        raise PackageError(f"{path} is larger than {LARGEST_FILE // MIB} MiB, which no bundle is.")
    return read_archive(content, path.name)


def _fault(info: zipfile.ZipInfo) -> str | None:
    """Return why one file of an archive is refused, by its name and kind."""
    written = info.orig_filename
    name = written.rstrip("/")
    parts = name.split("/")
    if not name or len(written) > _LONGEST_NAME or len(parts) > _DEEPEST:
        return "its path is empty, too long or too deep"
    if "\\" in written or not written.isprintable() or ":" in written:
        return "its path has characters in it that lead elsewhere on some systems"
    if name.startswith("/") or ntpath.splitdrive(name)[0] or any(part in ("", ".", "..") for part in parts):
        return "its path leads out of the folder"
    if any(len(part.encode()) > _LONGEST_PART for part in parts):
        return "its path has a name that is too long"
    if sys.platform == "win32" and any(is_reserved(part) for part in parts):
        return "its path has a name that Windows keeps for itself"
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
        return "it is neither a file, a folder nor a link"
    if info.flag_bits & 0x1:
        return "it is encrypted"
    return None if info.compress_type in _METHODS else "its compression is not that of bundles"


def _clash(info: zipfile.ZipInfo, taken: dict[str, bool]) -> str | None:
    """Record a path and the folders it needs; return why it conflicts with the earlier ones, or None.

    `taken` has the paths by their form on case-insensitive systems, and whether each is a folder.
    """
    parts = [unicodedata.normalize("NFC", part).casefold() for part in info.filename.rstrip("/").split("/")]
    for end in range(1, len(parts)):
        if not taken.setdefault("/".join(parts[:end]), True):
            return "its folder is a file"
    path = "/".join(parts)
    before = taken.get(path)
    taken[path] = info.is_dir()
    if before is None or (before and info.is_dir()):
        return None
    return "its path is there twice, at least where upper and lower case are one"


def _is_link(info: zipfile.ZipInfo) -> bool:
    return stat.S_ISLNK(info.external_attr >> 16)


def _stays_inside(name: str, target: str) -> bool:
    """Return whether a link is relative and leads up first, and no further than the root, and then only down."""
    if not target or target.startswith("/") or "\\" in target or "\0" in target or ":" in target:
        return False
    parts = [part for part in target.split("/") if part not in ("", ".")]
    ups = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    return ".." not in parts[ups:] and ups <= name.count("/") and len(parts) > ups


def _said(error: Exception) -> str:
    said = error_text(error)
    return "".join(c if c.isprintable() else " " for c in said)[:120].rstrip(".")
