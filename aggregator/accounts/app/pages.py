"""The pages for connecting accounts, as a serving process has them; and what its grants are to a frontend."""

from pkgutil import resolve_name
from typing import TYPE_CHECKING, cast

from aggregator.accounts.connect.entry import Connect, own_client_id
from aggregator.accounts.connect.parts import PersonSignIns
from aggregator.app.app import App
from aggregator.frontends.web.own_address import OwnAddress

if TYPE_CHECKING:
    from aggregator.accounts.grants.grants import Grants


def connect_pages(app: App) -> Connect:
    """Return the pages, and make the links of the app lead to them."""
    grants, own = grants_of(app), OwnAddress(app.config.http)
    assert grants is not None, "only an app with grants has these pages"
    auth = app.config.auth
    sign_ins: PersonSignIns | None = None
    if any(issuer.sign_in is not None for issuer in auth.issuers):
        # Loaded only if users sign in: it checks signatures.
        sign_ins = resolve_name("aggregator.identity.sign_in:SignIns")(auth)
    pages = Connect(grants, own, app.access, auth.client_id_url or own_client_id(own), sign_ins)
    grants.base = pages
    return pages


def grants_of(app: App) -> "Grants | None":
    """Return the grants of an app, or None if no server has accounts. Their module loads slowly."""
    return cast("Grants | None", app.grants)
