"""TLS of our own, for web frontends without a proxy in front of them.

Certificates are files, which are watched and taken anew while the program runs. A pair that cannot be used never
replaces one that can.

Terms:
  certificate: the file that this server shows to hosts, with its private key in another one
  client certificate: the one that a host shows, where `http.tls.client_ca` asks for it
  facts: the names of a certificate, and until when it is valid

Entry point: `server_tls.ServerTls` for a server, `server_tls.client_context` for a program here that asks one.
Must not import: `web` and the frontends, which use it; tests/test_layers.py holds that.
"""
