"""A configuration file made of Python objects or text, loaded."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pytest

from aggregator.config.load import Loaded, load


class Load(Protocol):
    def __call__(self, content: object, environ: Mapping[str, str] = {}) -> Loaded: ...


@pytest.fixture
def load_file(tmp_path: Path) -> Load:
    """Write `aggregator.json` (text as it is, anything else as JSON) and load it."""

    def made(content: object, environ: Mapping[str, str] = {}) -> Loaded:
        path = tmp_path / "aggregator.json"
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")
        return load(path, environ)

    return made
