"""One gateway for a module of tests that only send requests, and its issuers."""

from collections.abc import Iterator

import httpx2
import pytest

from tests.authorization.resource_harness import KEY_FETCHES, Issuers, ResourceHarness
from tests.peers.serving import BackgroundLoop


@pytest.fixture(scope="module")
def background() -> Iterator[BackgroundLoop]:
    """A background loop for all servers of a module."""
    with BackgroundLoop() as running:
        yield running


@pytest.fixture(scope="module")
def patched() -> Iterator[pytest.MonkeyPatch]:
    """Guesses cost no wait, and refusals no even time: both have tests of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aggregator.gateway.constant_time.EVEN", 0.0)
        patch.setattr("aggregator.identity.throttle.FREE", 10**9)
        patch.setattr(f"{KEY_FETCHES}.RETRY_EVERY", 0.0)
        yield patch


@pytest.fixture(scope="module")
def issuers(background: BackgroundLoop, patched: pytest.MonkeyPatch) -> Issuers:
    """The issuers `one` and `two`, and `strict`, whose ID tokens are not accepted."""
    return Issuers(background, "one", "two", "strict")


@pytest.fixture(scope="module")
def gateway(background: BackgroundLoop, issuers: Issuers, tmp_path_factory: pytest.TempPathFactory) -> ResourceHarness:
    """A gateway that accepts tokens of all three."""
    issuers["one"].keys.add("RS256", "rsa")
    issuers["one"].keys.add("EdDSA", "ed")
    issuers["one"].keys.add("ES384", "p384")
    one = {"algorithms": ["RS256", "PS256", "ES256", "EdDSA"]}
    fields = {"strict": {"types": ["at+jwt"]}, "one": one}
    return ResourceHarness(background, tmp_path_factory.mktemp("resource"), issuers, fields)


@pytest.fixture
def client(gateway: ResourceHarness) -> Iterator[httpx2.Client]:
    """A client of the shared gateway."""
    with gateway.http() as made:
        yield made
