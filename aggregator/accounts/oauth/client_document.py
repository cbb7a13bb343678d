"""The client id metadata document of the aggregator. Quick to import: the pages for connecting serve it."""

from collections.abc import Sequence
from typing import Any, Final

# The grants of our clients, in the document and in a registration.
CLIENT_GRANTS: Final = ("authorization_code", "refresh_token")


def client_document(
    client_id_url: str, redirect_uris: Sequence[str], client_name: str = "aggregator"
) -> dict[str, Any]:
    """Return the client id metadata document of the aggregator."""
    return {
        "client_id": client_id_url,
        "client_name": client_name,
        "redirect_uris": list(redirect_uris),
        "grant_types": list(CLIENT_GRANTS),
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "web",
    }
