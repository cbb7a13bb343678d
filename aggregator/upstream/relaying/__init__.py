"""Serving the other replicas: the servers that this one runs for all of them.

Law: a call of another replica goes to the server from here, or not at all; it is never passed on to a third one.

Terms:
  attachment: another replica that uses a server which runs here; it ends with the lease, or with the connection
  remote caller: a host of another replica, as the server's connection here deals with it
  place: which replica runs a server (`upstream/places`)

Entry point: `relay.ServerRelay`; `frontends/hops/servers.py` puts it on the wire.
Must not import: frontends, gateway; tests/test_layers.py holds that.
"""
