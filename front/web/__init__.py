"""HTTP on 15672: metrics for Prometheus, the paths of the management API, and the page for browsers.

A request comes in through http/server.py; api.py decides who asks (security/), router.py finds the handler, which lies in
resources/; handlers.py is what all of them have. An answer is made of views/ and lists/, with what other nodes say of
themselves (everywhere.py) and what was sampled (samples/). page_files.py serves the page of page/.
"""
