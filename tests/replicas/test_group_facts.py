"""What replicas tell each other of what they loaded, and what is said where it differs."""

from pathlib import Path

import pytest

from tests.end_to_end.server_harness import local_entry
from tests.polling import until
from tests.replicas.sharing import sharing

POLICY = "agents: {local: {allow: [server:peer]}}\n"


async def test_a_replica_that_loaded_policies_has_the_others_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the word of the first, the second would look only after an hour."""
    async with sharing(tmp_path, {"peer": local_entry()}, 1, policies={"all.yaml": POLICY}) as shared:
        (one,) = shared.running
        monkeypatch.setattr("aggregator.app.reload.policy_reload.EVERY", 3600.0)
        two = await shared.add()
        assert one.app.live is not None
        assert two.app.live is not None
        before = two.app.live.rulebook
        (tmp_path / "policies" / "all.yaml").write_text(POLICY + "  # changed\nroles: {new: {allow: [server:peer]}}\n")
        one.app.policy_reload.look_now()  # type: ignore[union-attr]
        await until(lambda: two.app.live is not None and two.app.live.rulebook is not before, "the other loaded them")


async def test_replicas_with_other_files_are_said(tmp_path: Path) -> None:
    async with sharing(tmp_path, {"peer": local_entry()}, 2) as shared:
        one, two = shared.running
        await until(lambda: one.app.replication.membership.others()[0].facts.get("config"), "the facts are there")
        assert "differs" not in one.app.report()[1]
        two.app._reconfiguration.config = two.app.config.model_copy(update={"expose": "search"})

        def said() -> str:
            return str(one.app.report()[1].get("differs"))

        await until(lambda: "has a configuration that differs" in said(), "the difference is said")
        assert "policies" not in said()
