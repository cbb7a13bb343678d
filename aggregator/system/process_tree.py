"""The kind of process tree that this system has, and the options with which its program is started.

Law: every kind has the same methods; `tests/windows/test_process_trees.py` holds them to one contract.
"""

import sys
from typing import Any, Final

if sys.platform == "win32":
    from aggregator.system.job import FLAGS
    from aggregator.system.job import Job as ProcessTree

    TREE_OPTIONS: Final[dict[str, Any]] = {"creationflags": FLAGS}
else:
    from aggregator.system.process_group import ProcessGroup as ProcessTree

    TREE_OPTIONS: Final[dict[str, Any]] = {"start_new_session": True}

__all__ = ["TREE_OPTIONS", "ProcessTree"]
