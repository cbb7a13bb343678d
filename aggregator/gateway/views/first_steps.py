"""What a model reads while no server is configured: the commands by which its user adds one."""

import shutil
import sys
from pathlib import Path
from typing import Final

from aggregator.domain.shell import in_powershell, shell_word

_PROGRAM: Final = "aggregator"


def first_steps(*, at_machine: bool) -> str:
    """Return how servers are added. `at_machine`: the host started this program, so that its user has a terminal."""
    program = own_program() if at_machine else _PROGRAM
    before = in_powershell(program)
    return (
        f"No server is configured yet. In a terminal, `{program} import --write`{before} takes over the servers of "
        f"Claude, Cursor and other programs on this machine, and `{program} add NAME -- COMMAND` adds one, without a "
        "restart."
    )


def own_program() -> str:
    """Return the word that runs this program in a terminal: its name, or its path if no PATH has it."""
    if shutil.which(_PROGRAM) is not None:
        return _PROGRAM
    folder = Path(sys.executable).parent
    for name in (_PROGRAM, f"{_PROGRAM}.exe"):
        if (folder / name).is_file():
            return shell_word(str(folder / name))
    return f"{shell_word(sys.executable)} -m {_PROGRAM}"
