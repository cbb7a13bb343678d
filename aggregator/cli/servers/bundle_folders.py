"""The folder of unpacked bundles, and which of them an entry runs from."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from aggregator.storage.locate import data_folder


def bundles_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder in which bundles are unpacked, each into a folder of its own."""
    return data_folder(environ) / "aggregator" / "bundles"


def unused_bundles(removed: Iterable[object], kept: Iterable[object]) -> list[Path]:
    """Return the folders of bundles that removed entries ran from, and none of the kept ones does."""
    still = {folder for entry in kept for folder in _bundles_of(entry)}
    found = (folder for entry in removed for folder in _bundles_of(entry))
    return [folder for folder in dict.fromkeys(found) if folder not in still and folder.is_dir()]


def _bundles_of(entry: object) -> Iterator[Path]:
    folder = entry.get("cwd") if isinstance(entry, Mapping) else None
    if isinstance(folder, str) and Path(folder).parent == bundles_folder(os.environ):
        yield Path(folder)
