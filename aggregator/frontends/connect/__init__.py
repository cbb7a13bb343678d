"""Pages on which a person connects their account at a server, and the listener for them where nothing is served.

A link leads to a page that says which account is connected for whom. Who opened it proves to be the one that the link
was made for, goes to the server's issuer, and comes back with its answer. No page needs a script.

Terms:
  connect link: the address of such a page, good once and for ten minutes
  proof: what shows that a browser is that of the principal who asked: this machine, an API key, or signing in
  issuer: the authorization server that asks the person whether they agree
  callback: the page that the issuer sends the browser back to

Entry points: `pages.ConnectPages`, `on_demand.PagesOnDemand` for processes without a web server.
Must not import: `app` and anything above it; tests/test_layers.py holds that.
"""
