"""The lanes of the suite: `short` is what everyone runs, `long` a few files, `full` what `short` thins out, and
`windows` a part of the suite with the package as on Windows (`tests/windows/likeness.py`).

Files of the long lane start many processes, or wait for what takes seconds by its nature. The short lane runs a part of
each product and fewer examples of each law: of a test with three axes or more it takes rows that hold every pair of
values, and `tests/laws.py` says how many examples. The full lane runs the other rows, and the laws with all their
examples. A file or folder of the long lane that is named on the command line runs in the short lane. Without `--lane`
everything runs, whole.
"""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeVar

import pytest
from hypothesis import is_hypothesis_test

from tests import laws
from tests.pairwise import cover

# Files, and folders, which end with a slash; a library that takes long to import costs each process of a lane.
LONG: Final = frozenset(
    {
        "access/test_lost_keys.py",
        "access/test_programs.py",
        "adapters/",
        "audit/test_chains.py",
        "audit/test_processes.py",
        "audit/test_replicas.py",
        "backup/test_commands.py",
        "backup/test_restoring.py",
        "backup/test_round_trip.py",
        "connect/test_commands.py",
        "connect/test_other_ways.py",
        "console/browser/",
        "console/test_demo.py",
        "console/test_under_way_workers.py",
        "deploy/test_leaving.py",
        "deploy/test_tls.py",
        "doctor/test_environment.py",
        "doctor/test_folders.py",
        "doctor/test_seeds.py",
        "doctor/test_whole.py",
        "end_to_end/test_closed_streams.py",
        "end_to_end/test_config_trust.py",
        "end_to_end/test_processes.py",
        "end_to_end/test_sdk_hosts.py",
        "examples/test_amap_server.py",
        "examples/test_legal_server.py",
        "faults/test_chaos.py",
        "flow_corpus/",
        "hosts/test_import_secrets.py",
        "hosts/test_made_up_host.py",
        "identity/test_keyring_processes.py",
        "install/test_program_starts.py",
        "install/test_take_over.py",
        "kept_results/test_frontends.py",
        "observability/test_canaries.py",
        "operating/test_ends.py",
        "packaging/test_bundle.py",
        "pins_running/test_several_processes.py",
        "postgres/test_cluster.py",
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
        "windows/test_every_module.py",
        "windows/test_journeys.py",
    }
)

# Files and folders of the lane `windows`: of each part of the product those that say most about files, paths and locks,
# encodings, event loops, programs and their ends, as many as two cores run in four minutes. docs/platforms.md says what
# was tried by hand besides. Tests of POSIX alone (process groups, signals, terminals, links, modes) are left out, or
# skipped by `ON_WINDOWS` with their reason.
WINDOWS: Final = frozenset(
    {
        "accounts/test_kept_grants.py",
        "adding/test_add.py",
        "adding/test_bundles.py",
        "audit/test_ending.py",
        "audit/test_failures.py",
        "audit/test_strict.py",
        "backup/test_archives.py",
        "config/",
        "connect/",
        "console/test_every_route.py",
        "direct/test_while_running.py",
        "doctor/test_ended_programs.py",
        "doctor/test_environment.py",
        "doctor/test_host_starts.py",
        "editing/",
        "end_to_end/test_cli.py",
        "end_to_end/test_http_frontend.py",
        "faults/test_stdio_end.py",
        "first_steps/",
        "hosts/",
        "identity/test_cli_keys.py",
        "identity/test_keyring.py",
        "install/",
        "meta/",
        "notify/test_serving.py",
        "observability/",
        "operating/test_reload.py",
        "operating/test_status.py",
        "operating/test_stop.py",
        "packaging/test_journey.py",
        "pins/test_cli.py",
        "policy/test_files.py",
        "replicas/test_lease_moments.py",
        "replicas/test_lease_rules.py",
        "replicas/test_leases.py",
        "replicas/test_worker_parts.py",
        "results/",
        "secrets/",
        "skills/test_serving.py",
        "storage/test_change_mark.py",
        "storage/test_damage.py",
        "storage/test_locate.py",
        "storage/test_opening.py",
        "storage/test_transactions.py",
        "telemetry/",
        "unit/test_patient_files.py",
        "unit/test_shell.py",
        "unit/test_usual_folders.py",
        "v1/test_calls.py",
        "windows/",
        # Of the long lane, of which a folder that is named here brings no file.
        "windows/test_every_module.py",
        "windows/test_journeys.py",
    }
)

# The mark of parameters that `rows_of_lane` chose.
THINNED: Final = pytest.mark.thinned

Row = TypeVar("Row", bound=tuple[Hashable, ...])


def add_option(parser: pytest.Parser) -> None:
    """Add `--lane`."""
    lanes = ("short", "long", "full", "windows")
    parser.addoption("--lane", choices=lanes, help="run one lane of the suite only (tests/lanes.py)")


def choose_examples(config: pytest.Config) -> None:
    """Choose how many examples laws are tried with, before modules of tests are imported."""
    laws.load_profile(short=config.getoption("--lane") in ("short", "windows"))


def is_elsewhere(path: Path, config: pytest.Config) -> bool:
    """Return whether a file or folder has only tests of other lanes, so that it need not be imported."""
    lane: str | None = config.getoption("--lane")
    tests = config.rootpath / "tests"
    if lane is None or path in _named(config) or not path.is_relative_to(tests):
        return False
    below, long = path.relative_to(tests).as_posix(), _long_unless_named(config)
    if lane == "windows":
        if path.is_dir():
            return below != "." and not any(f"{name}/".startswith(f"{below}/") for name in WINDOWS)
        return below not in WINDOWS and (not is_long(below, WINDOWS) or is_long(below))
    if path.is_dir():
        if lane == "long":
            return below != "." and not any(f"{name}/".startswith(f"{below}/") for name in LONG)
        return f"{below}/" in long
    return is_long(below, long) != (lane == "long")


def keep_lane(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of the other lanes."""
    lane = config.getoption("--lane")
    if lane is None:
        return
    tests = config.rootpath / "tests"
    thinned = _beyond_pairs(items) if lane != "long" else set()
    long = _long_unless_named(config) if lane != "long" else LONG
    kept: list[pytest.Item] = []
    others: list[pytest.Item] = []
    paths = {item.path for item in items}
    of_long_lane = {path for path in paths if is_long(path.relative_to(tests).as_posix(), long)}
    for item in items:
        if lane == "windows":
            is_ours = item not in thinned
        elif item.path in of_long_lane:
            is_ours = lane == "long"
        elif lane == "full":
            is_law = bool(is_hypothesis_test(getattr(item, "obj", None)))
            is_ours = is_law or item in thinned or THINNED.name in item.keywords
        else:
            is_ours = lane == "short" and item not in thinned
        (kept if is_ours else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = kept


def rows_of_lane(config: pytest.Config, rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a product that the lane runs, for a test which makes parameters of them, marked `THINNED`."""
    lane = config.getoption("--lane")
    chosen = set(cover(rows)) if lane in ("short", "full", "windows") else set()
    return [row for position, row in enumerate(rows) if (position in chosen) == (lane in ("short", "windows"))]


def is_long(path: str, long: Collection[str] = LONG) -> bool:
    """Return whether a path below `tests` is of the long lane; one of a folder ends with a slash."""
    return path in long or any(name.endswith("/") and path.startswith(name) for name in long)


@lru_cache(maxsize=1)
def _named(config: pytest.Config) -> set[Path]:
    """Return the files and folders named on the command line."""
    return {Path(config.invocation_params.dir, arg.partition("::")[0]) for arg in config.args}


@lru_cache(maxsize=1)
def _long_unless_named(config: pytest.Config) -> set[str]:
    """Return the files and folders of the long lane but those that the command line names, or a file in them."""
    named = {place for path in _named(config) for place in (path, *path.parents)}
    return {name for name in LONG if config.rootpath / "tests" / name not in named}


def _beyond_pairs(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return the items of products that a cover of all pairs leaves out."""
    functions: dict[str, list[tuple[pytest.Item, tuple[Hashable, ...]]]] = defaultdict(list)
    for item in items:
        if len(row := _row(item)) > 2 and THINNED.name not in item.keywords:
            functions[item.nodeid.partition("[")[0]].append((item, row))
    found: set[pytest.Item] = set()
    for rows in functions.values():
        chosen = set(cover([row for _, row in rows]))
        found.update(item for position, (item, _) in enumerate(rows) if position not in chosen)
    return found


def _row(item: pytest.Item) -> tuple[Hashable, ...]:
    """Return the values of each axis, by identity: names that one mark parametrizes are one axis."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return ()
    left = dict(callspec.params)
    row = []
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0].replace(",", " ").split() if isinstance(mark.args[0], str) else mark.args[0]
        row.append(tuple(id(left.pop(name)) for name in names if name in left))
    return (*row, *(id(value) for value in left.values()))
