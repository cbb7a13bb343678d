"""The facts that replicas exchange about their loaded files: serving as one, they should have the same."""

import hashlib
import hmac
import logging
from collections.abc import Mapping
from typing import Any, Final

from aggregator.app.hook_parts import PollingPart
from aggregator.app.reload.reconfiguration import Reconfiguration
from aggregator.config.model import Config
from aggregator.policy.live import LivePolicies
from aggregator.replicas.group.replication import Replication
from aggregator.storage.errors import StorageError
from aggregator.storage.records import Change

log = logging.getLogger(__name__)

# The subject of the change that makes the other replicas check their policy files.
POLICIES: Final = "policies"
_POLICIES, _CONFIG = "policies", "config"
_NOUNS: Final[Mapping[str, str]] = {_POLICIES: "policies", _CONFIG: "a configuration"}
# What each replica may have of its own.
_OWN: Final[Any] = {"replicas": True, "http": {"host", "port", "public_url"}, "log": True}


class GroupFacts:
    """The digests of this replica's loaded files, beside the others'."""

    def __init__(self, group: Replication, live: LivePolicies | None, in_force: Reconfiguration) -> None:
        self._group = group
        self._live = live
        self._in_force = in_force
        self._digested: tuple[Config, bytes, str] | None = None
        group.membership.say(self.facts)

    def hasten(self, subject: str, one: PollingPart) -> None:
        """Make a part check at once when another replica announces a change of this subject."""

        def listen(change: Change) -> None:
            if change.origin != self._group.membership.id:
                one.look_now()

        self._group.changes.listen(subject, listen)

    async def publish_policies(self) -> None:
        """Make the other replicas check their policy files: this one has loaded new ones."""
        if not self._group.enabled:
            return
        try:
            await self._group.changes.publish(POLICIES, {_POLICIES: self.facts()[_POLICIES]})
        except StorageError as error:
            log.info("the other replicas were not told of the policies, and find them by themselves: %s", error)

    def facts(self) -> Mapping[str, Any]:
        """Return the digests, for the others to compare with theirs."""
        rulebook = self._live.rulebook if self._live is not None else None
        return {_POLICIES: rulebook.revision if rulebook is not None else None, _CONFIG: self._digest()}

    def differences(self) -> list[str]:
        """Return a sentence for each other replica that has loaded something else."""
        mine = self.facts()
        return [
            f"The replica in slot {other.slot} ({other.address or other.id}) has {noun} that differs from here: "
            "the same request may be answered differently. Give all replicas the same files."
            for other in self._group.membership.others()
            for fact, noun in _NOUNS.items()
            if fact in other.facts and other.facts[fact] != mine[fact]
        ]

    def _digest(self) -> str:
        """Return the digest of the configuration. It has secrets in it, so that only the group can make one."""
        key, config = self._group.key.derive("states"), self._in_force.config
        before = self._digested
        if before is None or before[0] is not config or before[1] != key:
            text = config.model_dump_json(exclude=_OWN, warnings=False)
            digest = hmac.digest(key, b"configuration " + text.encode(), hashlib.sha256).hex()[:16]
            self._digested = before = (config, key, digest)
        return before[2]
