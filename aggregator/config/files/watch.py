"""Detection of changed files by their metadata, without reading them."""

from collections.abc import Iterable
from pathlib import Path

Stamp = tuple[object, ...]


def stamp(path: Path) -> Stamp:
    """Return a value that changes whenever the file does; only the path for a file that cannot be examined."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return (str(path),)
    # Time and size are not enough: a restored backup has those of the file it replaces.
    return (str(path), status.st_mtime_ns, status.st_size, status.st_ino, status.st_ctime_ns)


def signature(paths: Iterable[Path]) -> dict[Path, Stamp]:
    """Return the stamps of some files, which change whenever one of the files does."""
    return {path: stamp(path) for path in paths}
