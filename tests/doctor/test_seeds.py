"""Seeded misconfigurations: each is named by its code, and gone once the mend that is printed was applied."""

import pytest
from _pytest.mark.structures import ParameterSet

from aggregator.doctor.codes import CODES
from tests.doctor.place import Place
from tests.doctor.seeds import Seed, settled
from tests.doctor.seeds_of_config import SEEDS as OF_CONFIG
from tests.doctor.seeds_of_gateway import SEEDS as OF_GATEWAY
from tests.doctor.seeds_of_hosts import SEEDS as OF_HOSTS
from tests.doctor.seeds_of_servers import SEEDS as OF_SERVERS

SEEDS = (*OF_CONFIG, *OF_HOSTS, *OF_SERVERS, *OF_GATEWAY)


def _marked(seed: Seed) -> ParameterSet:
    """Return a seed as a parameter; those that start servers take seconds."""
    return pytest.param(seed, id=str(seed), marks=[pytest.mark.slow] if seed.connects else [])


@pytest.mark.parametrize("seed", [_marked(seed) for seed in SEEDS])
async def test_seed(seed: Seed, place: Place) -> None:
    """E9: A fault is named with its mend, and with the mend it is gone."""
    options = () if seed.connects else ("--no-connect",)
    await settled(seed.make(place))
    before = await place.examine(*seed.args, *options)
    assert seed.code in before.codes, before.report
    finding = before.of(seed.code)
    assert finding["severity"] in (CODES[seed.code].severity, "error", "warning")
    assert before.result.code == (1 if finding["severity"] in ("error", "warning") else before.result.code)
    assert finding["fix"], finding
    assert seed.tells in finding["fix"], finding
    if seed.mend is None:
        place.shell(finding["fix"])
    else:
        await settled(seed.mend(place, before))
    args = seed.args if seed.args_after is None else seed.args_after
    after = await place.examine(*(() if place.args else args), *options)
    assert finding not in after.report["findings"], after.report
    assert seed.code not in after.codes, after.report
