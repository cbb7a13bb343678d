"""The tests that `scripts/check` runs for a change (tests/changed.py)."""

import pytest

from tests.changed import JOURNEYS, LAWS, ROOT, paths_for
from tests.lanes import LONG
from tests.mutate_areas import AREAS


def test_laws_run_with_any_change() -> None:
    assert paths_for(()) == paths_for(["docs/architecture.md"]) == sorted(LAWS)
    assert "tests/test_layers.py" in LAWS


def test_every_path_of_journeys_is_there() -> None:
    assert all((ROOT / path).exists() for path in JOURNEYS)


@pytest.mark.parametrize("name", AREAS)
def test_every_area_brings_the_nearest_tests_that_are_not_long(name: str) -> None:
    code, tests = AREAS[name]
    nearest = [test for test in tests if test != "tests/adapters" and test.removeprefix("tests/") not in LONG][:1]
    assert {*nearest} <= {*paths_for(code)}


def test_journeys_run_with_any_change_of_the_package() -> None:
    assert {*JOURNEYS} <= {*paths_for(["aggregator/wire/peer.py"])}
    assert not {*JOURNEYS} & {*paths_for(["tests/unit/test_peer.py"])}


def test_the_area_that_names_a_module_most_closely_counts() -> None:
    assert "tests/search" in paths_for(["aggregator/catalog/search/rank.py"])
    assert "tests/flow" in paths_for(["aggregator/flow/gateway/scopes.py"])
    assert "tests/server_requests" not in paths_for(["aggregator/flow/gateway/scopes.py"])


def test_a_test_is_itself_and_a_helper_is_its_folder() -> None:
    assert {*paths_for(["tests/unit/test_peer.py"])} == {*LAWS, "tests/unit/test_peer.py"}
    assert {*paths_for(["tests/flow/sequences.py", "tests/flow/test_shared.py"])} == {*LAWS, "tests/flow"}


def test_the_long_lane_and_what_is_gone_are_left_out() -> None:
    assert paths_for(["tests/audit/test_chains.py", "tests/unit/test_gone.py", "tests/console/browser/tab.py"]) == [
        *LAWS
    ]
