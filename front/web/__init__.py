"""HTTP on 15672: metrics for Prometheus, the paths of the management API, and the page for browsers.

server is the driver (sockets and h11), request what a handler gets and gives, router finds the handler, api holds the
handlers, views says how records look as JSON, and page_files serves the page of page/.
"""
