"""The clients that send the HTTP requests of the transports, behind one port.

Terms:
  port: what the transports know of a client: requests, responses, failures (`port.py`)
  plain: the HTTP/1.1 client of our own, for `http://` without a proxy (docs/decisions/0020-our-own-http-client.md)
  head: the status line and the header fields of a response, or those of a request
  kept connection: one that is open after a response, for the next request

Entry point: `open_plain` and `plain_url` in `plain_requests.py`; `open_aiohttp` for everything else.

Must not import: the transports; tests/test_layers.py holds that.
"""
