"""What a host gets to know of an error of a server."""

import pytest

from aggregator.domain.errors import URL_REQUIRED, UpstreamRpcError
from aggregator.redaction.redactor import Redactor
from aggregator.upstream.redaction import ServerRedaction


@pytest.mark.parametrize(("code", "kept"), [(URL_REQUIRED, True), (-32000, False), (-32603, False)])
def test_an_error_keeps_the_address_of_a_page_alone(code: int, kept: bool) -> None:
    """D9: a person has to visit it as it is; its words are without secrets all the same."""
    secret = "s3cret-value-0815"
    redaction = ServerRedaction(Redactor([secret]), Redactor([secret]))
    data = {"elicitations": [{"url": f"https://login.example/?state={secret}", "message": "Log\u200b in."}]}
    error = UpstreamRpcError("docs", code, f"Go there: {secret}", data, {"note": secret})
    redaction.redact_error(error)
    assert secret not in f"{error.message} {error.args} {error.more}"
    assert (secret in str(error.data)) == kept
    assert ("\u200b" in error.data["elicitations"][0]["message"]) != kept
