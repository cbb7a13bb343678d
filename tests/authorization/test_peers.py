"""The test servers themselves: whole flows with other people's clients, and what other tests lean on."""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import jwt
import pytest

from tests.authorization.authorization_server import AuthorizationServer, answer_with, authorization_server, basic
from tests.authorization.protected_mcp_server import ProtectedServer, protected_mcp_server
from tests.authorization.sdk_host import BACK, signed_in

TYPES = "urn:ietf:params:oauth:token-type:"


@pytest.fixture
async def idp() -> AsyncIterator[AuthorizationServer]:
    async with authorization_server("/tenant") as server:
        yield server


@pytest.fixture
async def protected(idp: AuthorizationServer) -> AsyncIterator[ProtectedServer]:
    async with protected_mcp_server(idp) as server:
        yield server


async def _post(url: str, form: dict[str, str], **headers: str) -> tuple[int, dict[str, Any]]:
    async with httpx2.AsyncClient() as client:
        answer = await client.post(url, data=form, headers=headers)
    return answer.status_code, answer.json()


async def _code(idp: AuthorizationServer, verifier: str, **more: str) -> str:
    challenge = urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    asked = {"response_type": "code", "client_id": "app", "redirect_uri": BACK, "code_challenge": challenge}
    asked |= {"code_challenge_method": "S256", "state": "s", **more}
    async with httpx2.AsyncClient() as client:
        answer = await client.get(f"{idp.issuer}/authorize", params=asked)
    carried = parse_qs(urlsplit(answer.headers["location"]).query)
    assert carried["iss"] == [idp.issuer]
    return carried["code"][0]


async def test_sdk_host_signs_in_and_calls(idp: AuthorizationServer, protected: ProtectedServer) -> None:
    async with signed_in(protected.url, "bob") as client:
        result = await client.call_tool("whoami", {})
        assert result.structured_content is not None
        assert (result.structured_content["sub"], result.structured_content["aud"]) == ("bob", protected.url)
    assert idp.counts["register"] == idp.counts["token"] == 1
    assert set(protected.callers) == {"bob"}


async def test_refresh_rotates_and_old_one_lives_until_the_new_is_used(idp: AuthorizationServer) -> None:
    idp.add_client("app", "s3", redirect_uris=[BACK])
    sign = {"authorization": basic("app", "s3")}
    code = await _code(idp, "v" * 43, scope="openid mcp", resource="http://x/mcp")
    form = {"grant_type": "authorization_code", "code": code, "code_verifier": "v" * 43, "redirect_uri": BACK}
    status, first = await _post(f"{idp.issuer}/token", form, **sign)
    assert status == 200
    assert jwt.decode(first["id_token"], options={"verify_signature": False})["aud"] == "app"
    assert (await _post(f"{idp.issuer}/token", form, **sign))[1]["error"] == "invalid_grant"

    async def refresh(token: str) -> tuple[int, dict[str, Any]]:
        return await _post(f"{idp.issuer}/token", {"grant_type": "refresh_token", "refresh_token": token}, **sign)

    _, lost = await refresh(first["refresh_token"])
    _, second = await refresh(first["refresh_token"])
    assert (await refresh(lost["refresh_token"]))[1]["error"] == "invalid_grant"
    assert (await refresh(second["refresh_token"]))[0] == 200
    assert (await refresh(first["refresh_token"]))[1]["error"] == "invalid_grant"


async def test_introspection_revocation_and_devices(idp: AuthorizationServer) -> None:
    idp.add_client("app", "s3")
    sign = {"authorization": basic("app", "s3")}
    token = idp.token("carol", audience="here")
    assert (await _post(f"{idp.issuer}/introspect", {"token": token}, **sign))[1]["sub"] == "carol"
    assert (await _post(f"{idp.issuer}/introspect", {"token": token}))[0] == 401
    idp.revoke(token)
    assert (await _post(f"{idp.issuer}/introspect", {"token": token}, **sign))[1] == {"active": False}
    _, device = await _post(f"{idp.issuer}/device_authorization", {"scope": "mcp"}, **sign)
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": device["device_code"]}
    assert (await _post(f"{idp.issuer}/token", form, **sign))[1]["error"] == "authorization_pending"
    idp.agree(device["user_code"], "dora")
    _, tokens = await _post(f"{idp.issuer}/token", form, **sign)
    assert idp.access[tokens["access_token"]]["sub"] == "dora"


async def test_id_jag_from_one_server_is_accepted_by_another(idp: AuthorizationServer) -> None:
    async with authorization_server() as theirs:
        theirs.trusted.append(idp)
        for server in (idp, theirs):
            server.add_client("app", "s3")
        person = idp.keys.sign({"iss": idp.issuer, "sub": "eve", "aud": "app", "exp": idp.clock() + 60}, typ="JWT")
        form = {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": person}
        form |= {"subject_token_type": f"{TYPES}id_token", "requested_token_type": f"{TYPES}id-jag"}
        form |= {"audience": theirs.issuer, "resource": "http://x/mcp", "client_id": "app", "client_secret": "s3"}
        _, jag = await _post(f"{idp.issuer}/token", form)
        assertion = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": jag["access_token"]}
        assertion |= {"client_id": "app", "client_secret": "s3"}
        _, tokens = await _post(f"{theirs.issuer}/token", assertion)
        facts = theirs.access[tokens["access_token"]]
        assert (facts["sub"], facts["aud"]) == ("eve", "http://x/mcp")
        assert (await _post(f"{theirs.issuer}/token", assertion))[1]["error"] == "invalid_grant"


async def test_knobs(idp: AuthorizationServer, protected: ProtectedServer) -> None:
    idp.metadata["code_challenge_methods_supported"] = None
    idp.instead["jwks"] = answer_with(302, location="http://127.0.0.1:1/elsewhere")
    protected.needs["write"] = "files:write"
    token = idp.token("alice", audience=protected.url, scopes=["mcp"])
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "write"}}
    async with httpx2.AsyncClient() as client:
        at = f"{idp.address}/.well-known/oauth-authorization-server/tenant"
        described = (await client.get(at)).json()
        assert described["issuer"] == idp.issuer
        assert "code_challenge_methods_supported" not in described
        assert (await client.get(f"{idp.issuer}/jwks")).status_code == 302
        refused = await client.post(protected.url, json=call, headers={"authorization": f"Bearer {token}"})
        assert (refused.status_code, 'scope="files:write"' in refused.headers["www-authenticate"]) == (403, True)
        assert (await client.post(protected.url, json=call)).status_code == 401
