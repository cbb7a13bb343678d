"""The way of a browser to an authorization server and back: what is asked for, and which answers count."""

from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.client.auth import OAuthFlowError
from mcp.client.auth import utils as oracle
from mcp.shared.auth import OAuthMetadata

from aggregator.accounts.oauth.authorization import (
    AnswerRefused,
    LoginAttempt,
    UnsafeIssuer,
    begin,
    challenge_of,
    check_answer,
)
from aggregator.accounts.oauth.metadata import IssuerMetadata
from aggregator.accounts.oauth.registration import Registration
from aggregator.accounts.oauth.scopes import first_scopes, parse_scope, stepped_up

ISSUER = "https://as.example/t"
HERE = "http://127.0.0.1:1234/callback"
CLIENT = Registration(ISSUER, "client-1")


def _metadata(**more: object) -> IssuerMetadata:
    fields: dict[str, object] = {
        "authorization_endpoint": "https://as.example/t/authorize",
        "code_challenge_methods_supported": ("plain", "S256"),
        **more,
    }
    return IssuerMetadata(ISSUER, **fields)  # type: ignore[arg-type]


def _begun(*, iss: bool = False) -> LoginAttempt:
    metadata = _metadata(authorization_response_iss_parameter_supported=iss)
    return begin(metadata, CLIENT, HERE, resource="https://mcp.example/mcp", scopes=("a", "b"))


def test_a_request_has_all_that_mcp_demands() -> None:
    attempt = begin(_metadata(), CLIENT, HERE, resource="https://mcp.example/mcp", scopes=("a", "b c"[:1]))
    asked = {name: values for name, values in parse_qs(urlsplit(attempt.url).query, strict_parsing=True).items()}
    assert asked == {
        "response_type": ["code"],
        "client_id": ["client-1"],
        "redirect_uri": [HERE],
        "state": [attempt.state],
        "code_challenge": [challenge_of(attempt.verifier)],
        "code_challenge_method": ["S256"],
        "resource": ["https://mcp.example/mcp"],
        "scope": ["a b"],
    }
    assert attempt.url.startswith("https://as.example/t/authorize?")
    assert len(attempt.verifier) >= 43


def test_the_code_challenge_is_that_of_the_rfc() -> None:
    # RFC 7636, appendix B.
    assert challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_what_the_endpoint_has_in_its_query_stays() -> None:
    attempt = begin(
        _metadata(authorization_endpoint="https://as.example/login?tenant=x"), CLIENT, HERE, resource=None, scopes=None
    )
    asked = parse_qs(urlsplit(attempt.url).query)
    assert asked["tenant"] == ["x"]
    assert "scope" not in asked
    assert "resource" not in asked


def test_a_refresh_token_is_asked_for_with_consent_and_a_sign_in_with_a_nonce() -> None:
    asked = parse_qs(urlsplit(begin(_metadata(), CLIENT, HERE, resource=None, scopes=("offline_access",)).url).query)
    assert asked["prompt"] == ["consent"]
    attempt = begin(_metadata(), CLIENT, HERE, resource=None, scopes=("openid",), extra={"prompt": "login"})
    asked = parse_qs(urlsplit(attempt.url).query)
    assert asked["nonce"] == [attempt.nonce]
    assert asked["prompt"] == ["login"]


@pytest.mark.parametrize("methods", [None, (), ("plain",), ("s256",)])
def test_an_issuer_without_pkce_is_refused(methods: tuple[str, ...] | None) -> None:
    with pytest.raises(UnsafeIssuer, match="PKCE"):
        begin(_metadata(code_challenge_methods_supported=methods), CLIENT, HERE, resource=None)


def test_only_where_there_is_no_document_pkce_is_assumed() -> None:
    assert begin(_metadata(code_challenge_methods_supported=None, assumed=True), CLIENT, HERE, resource=None)


def test_a_client_id_is_never_shown_to_another_issuer() -> None:
    other = Registration("https://other.example", "client-1", kind="dynamic")
    with pytest.raises(UnsafeIssuer, match="other"):
        begin(_metadata(), other, HERE, resource=None)
    document = Registration("https://other.example", "https://gateway.example/client.json", kind="document")
    assert begin(_metadata(), document, HERE, resource=None).client_id == document.client_id


def test_nothing_secret_is_in_the_representation() -> None:
    attempt = _begun()
    for secret in (attempt.state, attempt.verifier):
        assert secret not in repr(attempt)
    assert LoginAttempt.from_json(attempt.to_json()) == attempt


def test_an_answer_brings_its_code() -> None:
    attempt = _begun()
    assert check_answer(attempt, {"state": attempt.state, "code": "c", "extra": "x"}) == "c"
    assert check_answer(attempt, [("code", "c"), ("state", attempt.state), ("iss", ISSUER)]) == "c"


@pytest.mark.parametrize("state", ["", "x", "ü", None])
def test_an_answer_to_another_request_is_refused(state: str | None) -> None:
    params = {"code": "c", "error": "access_denied"} | ({} if state is None else {"state": state})
    with pytest.raises(AnswerRefused, match="another request") as refused:
        check_answer(_begun(), params)
    assert refused.value.error is None


@pytest.mark.parametrize("name", ["code", "state", "iss", "error"])
def test_nothing_is_said_twice(name: str) -> None:
    attempt = _begun()
    said = {"state": attempt.state, "code": "c", "iss": ISSUER, "error": "x"}
    with pytest.raises(AnswerRefused, match="twice"):
        check_answer(attempt, [*said.items(), (name, said[name])])


_ISSUERS = st.sampled_from(
    [None, ISSUER, f"{ISSUER}/", "https://as.example/t?", "HTTPS://as.example/t", "https://evil.example", ""]
)


@given(st.booleans(), _ISSUERS)
def test_the_issuer_of_an_answer_is_judged_as_the_sdk_judges(advertised: bool, iss: str | None) -> None:
    attempt = _begun(iss=advertised)
    params = {"state": attempt.state, "code": "c"} | ({} if iss is None else {"iss": iss})
    metadata = OAuthMetadata.model_validate(
        {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/authorize",
            "token_endpoint": f"{ISSUER}/token",
            "authorization_response_iss_parameter_supported": advertised,
        }
    )
    try:
        oracle.validate_authorization_response_iss(iss, metadata)
    except OAuthFlowError:
        with pytest.raises(AnswerRefused):
            check_answer(attempt, params)
    else:
        assert check_answer(attempt, params) == "c"


def test_an_error_is_told_but_not_that_of_another_issuer() -> None:
    attempt = _begun()
    said = {"state": attempt.state, "error": "access_denied", "error_description": "No\x00 thanks"}
    with pytest.raises(AnswerRefused, match="access_denied: No thanks") as refused:
        check_answer(attempt, said)
    assert refused.value.error == "access_denied"
    with pytest.raises(AnswerRefused, match="another issuer") as refused:
        check_answer(attempt, {**said, "iss": "https://evil.example"})
    assert refused.value.error is None
    assert "No" not in refused.value.reason


@pytest.mark.parametrize("code", ["", "c" * 10_000])
def test_a_code_is_a_text_of_some_length(code: str) -> None:
    attempt = _begun()
    with pytest.raises(AnswerRefused, match="without a code"):
        check_answer(attempt, {"state": attempt.state, "code": code})


_SCOPES = st.one_of(st.none(), st.lists(st.sampled_from(["a", "b", "c", "offline_access"]), max_size=4, unique=True))


@given(_SCOPES, _SCOPES, _SCOPES)
def test_scopes_are_chosen_as_the_sdk_chooses(
    challenged: list[str] | None, of_resource: list[str] | None, of_issuer: list[str] | None
) -> None:
    chosen = first_scopes(challenged, of_resource, of_issuer)
    if challenged:
        expected = challenged
    elif challenged is None and of_resource:
        expected = of_resource
    else:
        assert chosen is None
        return
    offline = ["offline_access"] if of_issuer and "offline_access" in of_issuer else []
    assert chosen is not None
    assert set(chosen) == {*expected, *offline}
    assert chosen[: len(expected)] == tuple(expected)


@given(_SCOPES, _SCOPES)
def test_a_step_up_loses_no_scope(before: list[str] | None, challenged: list[str] | None) -> None:
    expected = oracle.union_scopes(
        None if before is None else " ".join(before), None if challenged is None else " ".join(challenged)
    )
    assert " ".join(stepped_up(before, challenged) or ()) == (expected or "")


def test_configured_scopes_count_before_all() -> None:
    assert first_scopes(["a"], ["b"], ["offline_access"], ("z",)) == ("z", "offline_access")


def test_a_scope_is_a_word() -> None:
    assert parse_scope('a b  a "c" d\\e \x00 f:g/h') == ("a", "b", "f:g/h")
    assert parse_scope(5) is None
    assert len(parse_scope(" ".join(map(str, range(1000)))) or ()) == 200
