"""The replica that runs a server of which there is to be one connection in the whole group (`replicas: one`).

Law: only the owner of the lease sends anything to the server, and it looks at the lease right before each send.

Terms:
  place: which replica runs a server, as this one knows it: here, or there
  owner: the replica that runs it; the others send their calls to it by hops
  fence: what refuses to send, and kills the program, once the lease may be another's

Entry point: `place.ServerPlaces`.
Must not import: transports, sessions; tests/test_layers.py holds that.
"""
