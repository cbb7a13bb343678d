"""The aggregator as on Windows: `TESTS_ON=windows python -m tests.windows.program ARGS`."""

import sys

from aggregator import cli

if __name__ == "__main__":
    sys.argv[0] = "aggregator"
    cli.main()
