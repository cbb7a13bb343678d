"""Several replicas: a session and a question belong to the owner of a token at each of them."""

import json
from pathlib import Path

from tests.authorization.authorization_server import authorization_server
from tests.replicas.sharing import sharing, turning_host
from tests.replicas.test_forwarding import ASK, SERVERS, YES
from tests.server_requests.entries import ABLE
from tests.tokens.conftest import AUDIENCE


async def test_a_question_is_answered_by_its_owner_at_any_replica(tmp_path: Path) -> None:
    """The hop that brings an answer says whose it is: others of the same agent, who know the session's id, are sent
    away, and so is a token that has expired.
    """
    rules = {"agents": {"one": {"allow": ["*"]}}, "who": [{"agent": "one"}]}
    async with authorization_server() as idp:
        auth = {"issuers": [{"issuer": idp.issuer, "audience": [AUDIENCE]}]}

        def sent(subject: str, lifetime: float = 600) -> dict[str, str]:
            text = idp.token(subject, audience=AUDIENCE, groups=["staff"], lifetime=lifetime)
            return {"authorization": f"Bearer {text}"}

        async with (
            sharing(tmp_path, SERVERS, 2, policies={"main.yaml": json.dumps(rules)}, auth=auth) as shared,
            turning_host(sent("alice")) as alice,
            turning_host(sent("bob")) as bob,
            turning_host(sent("alice", lifetime=-60)) as late,
        ):
            one, two = shared.running
            await alice.greet(one.url, ABLE)
            bob.session = late.session = alice.session
            assert (await bob.ask(two.url, "tools/list")).status == 404
            call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": ASK}
            async with alice.streaming(one.url, call) as events:
                question = await events.next()
                answer = {"jsonrpc": "2.0", "id": question["id"], "result": YES}
                assert (await bob.post(two.url, answer)).status == 404
                assert (await late.post(two.url, answer)).status == 401
                # Another token of hers, at the other replica.
                async with turning_host(sent("alice", lifetime=900)) as renewed:
                    renewed.session = alice.session
                    assert (await renewed.post(two.url, answer)).status == 202
                assert '"action": "accept"' in str(await events.next())
