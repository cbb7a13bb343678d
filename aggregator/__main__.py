"""Run the command line: `python -m aggregator`."""

import os
import sys

# Python puts the working folder first among the places of modules; what stands there is not ours to run.
try:
    folder = os.getcwd()
except OSError:  # it was removed; `main` says so
    folder = ""
if not sys.flags.safe_path and sys.path[:1] == [folder]:
    del sys.path[0]

from aggregator.cli import main

main()
