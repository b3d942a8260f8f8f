"""HTTP on 15672: metrics for Prometheus and the paths of the management API.

server is the driver (sockets and h11), request what a handler gets and gives, router finds the handler, api holds the
handlers, and views says how records look as JSON.
"""
