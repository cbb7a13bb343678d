"""Modules of a package without its `__init__`, which imports far more than is used here.

Rule: everything else in the process finds the package as ever: its `__init__` runs once something that it defines is
asked for.
"""

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from threading import RLock
from typing import Any


def import_alone(package: str, *names: str) -> list[Any]:
    """Import these modules of a package; run its `__init__` later, if at all."""
    modules = [f"{package}.{name}" for name in names]
    spec = find_spec(package) if package not in sys.modules else None
    if spec is None or spec.loader is None:
        return [import_module(module) for module in modules]
    bare, loader, running = module_from_spec(spec), spec.loader, RLock()

    def whole(name: str) -> Any:
        with running:
            if vars(bare).pop("__getattr__", None) is not None:
                loader.exec_module(bare)
        if name not in vars(bare):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return vars(bare)[name]

    sys.modules[package] = bare
    found = [import_module(module) for module in modules]
    # Not before: the import of a module of the package asks for it as for an attribute first.
    bare.__getattr__ = whole  # type: ignore[method-assign]
    above, _, own = package.rpartition(".")
    if above:
        vars(sys.modules[above])[own] = bare
    return found
