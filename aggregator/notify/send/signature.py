"""Signatures of messages, by which a receiver knows that they are ours and new (Standard Webhooks 1.0.0)."""

import hmac
from base64 import b64encode
from hashlib import sha256

from aggregator.notify.config import secret_key


def signed_headers(notice_id: str, at: int, body: bytes, secret: str | None) -> dict[str, str]:
    """Return the headers of one attempt: `webhook-id`, `webhook-timestamp` and, with a secret, `webhook-signature`.

    `at` is the time of the attempt, in seconds since 1970.

    Source: https://github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md, Webhook headers.
    """
    headers = {"webhook-id": notice_id, "webhook-timestamp": str(at)}
    if secret is not None:
        content = b"%s.%d.%s" % (notice_id.encode(), at, body)
        digest = hmac.new(secret_key(secret), content, sha256).digest()
        headers["webhook-signature"] = f"v1,{b64encode(digest).decode()}"
    return headers
