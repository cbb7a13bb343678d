"""Every module of the package can be imported where no name exists that only POSIX has."""

import os
import subprocess
import sys

from tests.end_to_end.server_harness import ROOT

CODE = """
import tests
import aggregator
from importlib import import_module
from pkgutil import walk_packages

names = [module.name for module in walk_packages(aggregator.__path__, "aggregator.")]
for name in names:
    # Alembic loads the first by rules of its own, and the second runs the program.
    if ".migrations." not in name and not name.endswith("__main__"):
        import_module(name)
from aggregator.system import process_tree
from aggregator.upstream.process import process
assert process_tree.ProcessTree.__name__ == "Job"
assert process.sys.platform == "win32"
assert not hasattr(process.os, "killpg")
print(len(names))
"""


def test_every_module_is_imported_without_names_of_posix() -> None:
    """No module needs one to be loaded."""
    env = {**os.environ, "TESTS_ON": "windows"}
    done = subprocess.run([sys.executable, "-c", CODE], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1000
