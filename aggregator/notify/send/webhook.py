"""Webhooks, sent by aiohttp: one connection at a time, no cookies, no redirects, a small part of the answer."""

import hmac
import json
import time
from base64 import b64encode
from hashlib import sha256
from typing import Any, Final

import aiohttp

from aggregator import __version__
from aggregator.domain.text.cut import cut_between_words
from aggregator.domain.text.invisible import escaped
from aggregator.notify.config import ReceiverConfig, secret_key
from aggregator.notify.send.delivery import DeliveryAnswer, answer_of_status
from aggregator.notify.send.formats import message
from aggregator.notify.send.notice import Notice

# Bytes of an answer that are read, and characters of it that are shown.
_READ: Final = 1024
_SHOWN: Final = 200


class Webhook:
    """The webhook of one receiver."""

    def __init__(self, receiver: ReceiverConfig) -> None:
        assert receiver.url is not None
        self._receiver = receiver
        self._url = receiver.url
        self._session: aiohttp.ClientSession | None = None

    async def attempt(self, notice: Notice) -> DeliveryAnswer:
        """Send the message once."""
        receiver = self._receiver
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=1),
                timeout=aiohttp.ClientTimeout(total=receiver.timeout),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,
            )
        body = message(notice, receiver.format)
        headers = {
            **receiver.headers,
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": f"aggregator/{__version__}",
            **signed_headers(notice.id, int(time.time()), body, receiver.secret),
        }
        try:
            async with self._session.post(
                self._url, data=body, headers=headers, proxy=receiver.proxy, allow_redirects=False
            ) as response:
                said = _shown(await response.content.read(_READ))
                # The rest of a longer answer is not read: the connection ends with it.
                return answer_of_status(response.status, said, response.headers.get("retry-after"))
        except TimeoutError:
            return DeliveryAnswer(False, f"no answer within {receiver.timeout:g} s", again=True)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return DeliveryAnswer(False, _describe(error), again=not isinstance(error, aiohttp.InvalidURL))

    async def close(self) -> None:
        """Close the connection."""
        if self._session is not None:
            await self._session.close()


def _shown(body: bytes) -> str:
    text = cut_between_words(escaped(body.decode("utf-8", "replace").strip()), _SHOWN)
    return f": {json.dumps(text, ensure_ascii=False)}" if text else ""


def _describe(error: Exception) -> str:
    """Return the text of a failure, without the address in it."""
    cause: Any = error
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        if isinstance(cause, ConnectionRefusedError):
            return "nothing listens there"
    if isinstance(error, aiohttp.InvalidURL):
        return "not an address"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not one that this machine trusts"
    if isinstance(cause, OSError) and cause.strerror:
        return str(cause.strerror)
    return type(cause).__name__


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
