"""What counts as passing, as falling short, and as explained."""

from pathlib import Path
from typing import Any

import pytest

from tests.conformance.report import Report
from tests.conformance.suite import NotInstalled, Suite
from tests.conformance.verdicts import Accepted, passes, read_accepted, scenario_of, shortfalls, worst


def made(*checks: tuple[str, str]) -> Any:
    return worst({"id": id_, "status": status, "errorMessage": f"{id_} {status}"} for id_, status in checks)


GOOD = made(("a", "SUCCESS"), ("b", "SUCCESS"), ("note", "INFO"))


def test_a_check_is_as_bad_as_its_worst_occurrence() -> None:
    checks = made(("a", "SUCCESS"), ("a", "FAILURE"), ("a", "WARNING"), ("b", "INFO"), ("b", "SUCCESS"))
    assert {id_: check.status for id_, check in checks.items()} == {"a": "FAILURE", "b": "INFO"}


@pytest.mark.parametrize(
    ("folder", "scenario"),
    [
        ("server-tools-list-2026-11-21T08-57-51-653Z", "tools-list"),
        ("server-server-stateless-2026-11-21T08-57-51-653Z", "server-stateless"),
        ("sse-retry-2026-11-21T08-57-51-653Z", "sse-retry"),
        ("sep-2164-resource-not-found-2026-11-21T08-57-51-653Z", "sep-2164-resource-not-found"),
        ("something else", None),
    ],
)
def test_the_scenario_is_in_the_name_of_the_folder(folder: str, scenario: str | None) -> None:
    assert scenario_of(folder) == scenario


def test_a_scenario_passes_without_failures_and_not_without_checks() -> None:
    assert passes(made(("a", "SUCCESS"), ("b", "WARNING")))
    assert not passes(made(("a", "SUCCESS"), ("b", "FAILURE")))
    assert not passes({})


@pytest.mark.parametrize(
    ("through", "short"),
    [
        (GOOD, []),
        (made(("a", "SUCCESS"), ("b", "INFO")), []),
        (made(("a", "SUCCESS"), ("b", "WARNING")), ["b"]),
        (made(("a", "SUCCESS")), ["b"]),
        (made(("c", "FAILURE")), ["c"]),
        (made(("a", "SUCCESS"), ("b", "SKIPPED"), ("c", "FAILURE")), ["c"]),
        ({}, ["scenario"]),
    ],
)
def test_what_passes_directly_and_not_through_is_a_shortfall(through: Any, short: list[str]) -> None:
    assert [check.id for check in shortfalls(GOOD, through)] == short


def test_an_exception_explains_its_own_check_where_it_says() -> None:
    known = Accepted("s", "so it is", ("2026-07-28",), ("sse",), ("b",))
    assert known.covers("s", "2026-07-28", "sse", "b")
    for other in (("t", "2026-07-28", "sse", "b"), ("s", "2025-11-25", "sse", "b"), ("s", "2026-07-28", "http", "b")):
        assert not known.covers(*other)
    assert not known.covers("s", "2026-07-28", "sse", "a")
    assert Accepted("s", "everywhere").covers("s", "2025-06-18", "stdio", "anything")


def test_a_cell_is_explained_only_when_all_of_it_is() -> None:
    known = Accepted("s", "so it is", checks=("b",))
    report = Report([known])
    direct = {"s": GOOD}
    less, worse = made(("a", "SUCCESS"), ("b", "WARNING")), made(("a", "WARNING"), ("b", "WARNING"))
    report.add("2026-07-28", direct, {"sse": {"s": less}, "http": {"s": worse}, "stdio": {"s": GOOD}, "none": {}})
    assert report.against_us() == [("2026-07-28", "http", "s"), ("2026-07-28", "none", "s")]
    assert "| s | ok | (less) | less | ok | **fails** |" in str(report)


def test_an_exception_for_what_passes_is_told_of() -> None:
    """Wherever it is said to be needed and is not; where it was not tried, nothing is known."""
    everywhere, one = Accepted("s", "so it is"), Accepted("t", "so it is", ("2026-07-28",), ("sse",), ("b",))
    report = Report([everywhere, one])
    bad = made(("a", "FAILURE"))
    report.add("2026-07-28", {"s": GOOD}, {"sse": {"s": bad}, "http": {"s": GOOD}})
    report.add("2025-11-25", {"t": GOOD}, {"sse": {"t": GOOD}})
    assert report.needless() == [(everywhere, "2026-07-28", "http")]
    report.add("2026-07-28", {"t": GOOD}, {"sse": {"t": GOOD}})
    assert (one, "2026-07-28", "sse") in report.needless()


def test_a_fixture_that_fails_counts_too() -> None:
    report = Report([])
    report.add("2026-07-28", {"s": made(("a", "FAILURE"))}, {})
    assert report.against_us() == [("2026-07-28", "direct", "s")]
    assert "a FAILURE" in str(report)


def test_the_exceptions_all_have_reasons() -> None:
    accepted = read_accepted(Path(__file__).with_name("exceptions.toml"))
    assert accepted
    assert all(len(known.reason) > 20 and known.checks for known in accepted)


@pytest.mark.parametrize(
    "entry", ['scenario = "s"', 'reason = "r"', 'scenario = "s"\nreason = "r"\nrevision = "2026-07-28"']
)
def test_an_exception_without_a_reason_or_with_a_slip_is_refused(tmp_path: Path, entry: str) -> None:
    path = tmp_path / "exceptions.toml"
    path.write_text(f"[[exception]]\n{entry}\n")
    with pytest.raises(ValueError, match=r"exceptions\.toml"):
        read_accepted(path)


def test_a_suite_that_is_not_there_is_not_taken_for_one_that_passes(tmp_path: Path) -> None:
    with pytest.raises(NotInstalled, match="scripts/conformance"):
        Suite.found(tmp_path)
