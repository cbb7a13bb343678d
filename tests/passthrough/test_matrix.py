"""Every feature of the protocol x era of the host x era of the server x frontend x transport, from one table."""

import inspect
from collections import defaultdict
from collections.abc import AsyncIterator
from itertools import count, product
from pkgutil import resolve_name
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.end_to_end.server_harness import FRONTENDS, ServerHarness
from tests.lanes import THINNED, rows_of_lane
from tests.passthrough import drive_calls, drive_lists
from tests.passthrough.drives import DRIVES, INSTEAD, NEED_ANSWERS, OF_ALL, FeatureCase, HostPool
from tests.passthrough.table import HANDSHAKE, PAGE, Cell, Feature, read, with_table
from tests.passthrough.upstreams import UPSTREAMS

TABLE: Final = read()
VERSIONS: Final = {HANDSHAKE: "2025-11-25", "2026-07-28": "2026-07-28"}
DRIVEN: Final = [feature for feature in TABLE.features if feature.proved_by is None]
_numbers: Final = count(1)


def cell_of(upstream: str, era: str, frontend: str) -> Cell:
    transport = upstream.partition("_")[0]
    return Cell(era, "2026-07-28" if UPSTREAMS[upstream] == "2026-07-28" else HANDSHAKE, frontend, transport)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hosts(harness: ServerHarness) -> AsyncIterator[HostPool]:
    """A pool of hosts for all tests of the module."""
    made = HostPool(harness)
    yield made
    await made.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test of a feature the servers that are its own in this lane."""
    if "upstreams" not in metafunc.fixturenames:
        return
    by_host: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    named = {feature.name: feature for feature in DRIVEN}
    whole = [*product((name for name in named if name in OF_ALL), VERSIONS, FRONTENDS)]
    for host in rows_of_lane(metafunc.config, whole):
        by_host[host].extend(UPSTREAMS)
    cells = [*product((name for name in named if name not in OF_ALL), VERSIONS, FRONTENDS, UPSTREAMS)]
    for name, era, frontend, upstream in rows_of_lane(metafunc.config, cells):
        by_host[name, era, frontend].append(upstream)
    rows = [
        pytest.param(named[name], era, frontend, upstreams, id=f"{frontend}-{era}-{name}", marks=THINNED)
        for (name, era, frontend), upstreams in by_host.items()
    ]
    metafunc.parametrize(("feature", "era", "frontend", "upstreams"), rows)


@pytest.mark.asyncio(loop_scope="module")
async def test_what_passes_and_what_cannot(
    harness: ServerHarness, hosts: HostPool, feature: Feature, era: str, frontend: str, upstreams: list[str]
) -> None:
    """With every kind of server: it passes, or what the table says happens instead.

    Proves: F1, F2, C5, C6, C10, C17
    """
    host = await hosts.host(frontend, VERSIONS[era], able=feature.name in NEED_ANSWERS)
    cells = [
        FeatureCase(host, upstream, cell_of(upstream, era, frontend), f"key-{next(_numbers)}") for upstream in upstreams
    ]
    passing = [at for at in cells if not feature.reasons(at.cell)]
    others = [at for at in cells if feature.reasons(at.cell)]
    if passing:
        await DRIVES[feature.name](passing)
    if others and feature.name in INSTEAD:
        await INSTEAD[feature.name](others)


def test_every_combination_there_is_has_a_server() -> None:
    """The servers of these tests are all that the axes of the table allow, at every frontend."""
    there = {cell_of(upstream, era, frontend) for upstream in UPSTREAMS for era in VERSIONS for frontend in FRONTENDS}
    assert there == set(TABLE.cells())


def test_every_feature_is_driven_or_impossible() -> None:
    """A drive for each that can pass anywhere, none for what is not in the table, one reason for a cell at most."""
    cells = list(TABLE.cells())
    names = [feature.name for feature in TABLE.features]
    assert len(names) == len(set(names))
    for feature in TABLE.features:
        reasons = [feature.reasons(cell) for cell in cells]
        assert all(len(found) <= 1 for found in reasons), feature.name
        assert all(any(reason in found for found in reasons) for reason in feature.cannot), feature.name
        passes = not all(reasons)
        assert ((feature.name in DRIVES) != (feature.proved_by is not None)) if passes else feature.cannot, feature.name
    driven = {feature.name for feature in DRIVEN}
    assert DRIVES.keys() | INSTEAD.keys() <= driven
    made = {name for module in (drive_calls, drive_lists) for name in vars(module)}
    assert set(DRIVES) <= made


@pytest.mark.parametrize("feature", [f for f in TABLE.features if f.proved_by], ids=lambda feature: feature.name)
def test_what_another_test_proves_is_proved_in_every_cell(feature: Feature) -> None:
    """The test is there, and goes through every frontend, both eras and all these servers."""
    assert feature.proved_by is not None
    path, _, name = feature.proved_by.partition("::")
    test: Any = resolve_name(f"{path.removesuffix('.py').replace('/', '.')}:{name}")
    given = {mark.args[0]: set(mark.args[1]) for mark in test.pytestmark if mark.name == "parametrize"}
    assert given["frontend"] >= set(FRONTENDS)
    assert given["version"] >= set(VERSIONS.values())
    assert given["upstream"] >= UPSTREAMS.keys()
    assert inspect.iscoroutinefunction(test)
    assert feature.cannot == ()


def test_the_page_shows_the_table() -> None:
    """`python -m tests.passthrough.table` writes it."""
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page, TABLE) == page
