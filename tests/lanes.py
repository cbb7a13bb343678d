"""The two lanes of the suite: `short` is what everyone runs, `long` takes as much time again in a few files.

Without `--lane` both run. Files of the long lane start many processes, or wait for what takes seconds by its nature.
"""

from typing import Final

import pytest

LONG: Final = frozenset(
    {
        "access/test_lost_keys.py",
        "access/test_programs.py",
        "audit/test_chains.py",
        "audit/test_processes.py",
        "audit/test_replicas.py",
        "backup/test_commands.py",
        "backup/test_restoring.py",
        "backup/test_round_trip.py",
        "connect/test_other_ways.py",
        "console/browser/test_approvals.py",
        "console/browser/test_calls.py",
        "console/browser/test_connections.py",
        "console/browser/test_hostile_pages.py",
        "console/browser/test_pins.py",
        "console/browser/test_tasks.py",
        "console/test_demo.py",
        "console/test_under_way_workers.py",
        "deploy/test_leaving.py",
        "deploy/test_tls.py",
        "doctor/test_folders.py",
        "doctor/test_seeds.py",
        "doctor/test_whole.py",
        "end_to_end/test_config_trust.py",
        "end_to_end/test_processes.py",
        "end_to_end/test_sdk_hosts.py",
        "faults/test_chaos.py",
        "hosts/test_import_secrets.py",
        "identity/test_keyring_processes.py",
        "install/test_program_starts.py",
        "install/test_take_over.py",
        "observability/test_canaries.py",
        "operating/test_ends.py",
        "postgres/test_program.py",
        "postgres/test_schema.py",
        "postgres/test_wake.py",
        "replicas/test_forwarding.py",
        "replicas/test_from_one_to_another.py",
        "replicas/test_group_facts.py",
        "replicas/test_limit_of_processes.py",
        "replicas/test_one_server.py",
        "replicas/test_sessions.py",
        "replicas/test_workers.py",
        "secrets/test_canaries.py",
        "secrets/test_program_run.py",
        "secrets/test_rotation.py",
        "server_requests/test_both_eras.py",
        "storage/test_approvals_together.py",
    }
)


def add_option(parser: pytest.Parser) -> None:
    """Add `--lane`."""
    parser.addoption("--lane", choices=("short", "long"), help="run one lane of the suite only (tests/lanes.py)")


def keep_lane(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of the other lane."""
    lane = config.getoption("--lane")
    if lane is None:
        return
    tests = config.rootpath / "tests"
    kept: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        is_long = item.path.relative_to(tests).as_posix() in LONG
        (kept if is_long == (lane == "long") else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = kept
