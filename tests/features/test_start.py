"""What a start of `serve` imports of features that no setting asks for."""

import subprocess
import sys
from typing import Final

# The modules of programs, and those of requests to authorization servers: memory and time of every start.
_ON_DEMAND: Final = (
    "aggregator.code.sandbox.reading",
    "aggregator.code.sandbox.outcome",
    "aggregator.accounts.oauth.authorization",
    "aggregator.accounts.oauth.fetch",
    "aggregator.accounts.oauth.registration",
)


def test_a_start_imports_no_program_reader_and_no_client_of_authorization_servers() -> None:
    code = "import sys, aggregator.cli.serve; print(*sys.modules)"
    started = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    imported = set(started.stdout.split())
    assert "aggregator.code.sandbox.sandbox" in imported
    assert imported.isdisjoint(_ON_DEMAND)
