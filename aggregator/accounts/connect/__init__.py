"""Pages on which a user connects their account at a server, and the listener for them in processes without a web
server.

A link leads to a page that names the account and its owner. The visitor proves to be the principal that the link was
made for, goes to the server's issuer, and comes back with its answer. No page needs a script.

Terms:
  connect link: the address of such a page, valid once and for ten minutes
  proof: the evidence that a browser belongs to the principal who asked: this machine, an API key, or signing in
  issuer: the authorization server that asks the user for consent
  callback: the page that the issuer sends the browser back to

Entry points: `pages.ConnectPages`, `on_demand.PagesOnDemand` for processes without a web server.
Must not import: `app` and anything above it; tests/test_layers.py holds that.
"""
