"""What keeps another site's page from having an administrator's browser change something here.

A browser adds the password that it has for this node to whatever request a page makes it send. It sends no PUT, DELETE or JSON
from another site unless the node allows that site to (cross_origin.py), and none is allowed by default. A form of type
text/plain it sends at once, with a body that can be made to be JSON. Browsers tell which site the page is of, and nothing is
changed for another one. Old browsers do not: what they send has to say that it is JSON. Programs are no browsers, and may send
what they like. A login by cookie is a browser's in any case: what it changes has to come from a page of this very origin, and
to say so.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from front.web.http.request import HttpError, Request
from front.web.security.cross_origin import CrossOrigin

CHANGES_NOTHING = frozenset({"GET", "HEAD", "OPTIONS"})
# What Sec-Fetch-Site says of requests that a page of this very origin made, or a person by typing an address.
OWN = frozenset({b"same-origin", b"none"})


def check_origin(request: Request, cross_origin: CrossOrigin) -> None:
    """Raises HttpError 403 or 415 for what could be another site's page."""
    if request.method in CHANGES_NOTHING or cross_origin.trusts(request):
        return
    if cross_origin.allows(request):
        request.require_json()  # for which a browser asks first, and then sends no login that it keeps
        return
    if not _is_own(request):
        raise HttpError(403, "forbidden", "a page of another site asks: only the node's own may change anything")
    if request.method == "POST" and _is_old_browser(request):
        request.require_json()


def check_cookies_origin(request: Request) -> None:
    """Raises HttpError 403 for a change that no page of this origin asks for, or that does not say whose page asks."""
    says = {b"sec-fetch-site", b"origin"} & request.headers.keys()
    if request.method not in CHANGES_NOTHING and not (says and _is_own(request)):
        raise HttpError(403, "forbidden", "a login by cookie changes something for this node's own pages only")


def _is_own(request: Request) -> bool:
    site = request.headers.get(b"sec-fetch-site")
    if site is not None:
        return site in OWN
    origin = request.headers.get(b"origin")
    if origin is None:
        return True  # no browser: those name the origin with whatever changes something
    try:
        host = urlsplit(origin.decode("latin-1")).netloc
    except ValueError:
        return False
    return host.encode("latin-1").lower() == request.headers.get(b"host", b"").lower()


def _is_old_browser(request: Request) -> bool:
    headers = request.headers
    return b"mozilla" in headers.get(b"user-agent", b"").lower() and not {b"sec-fetch-site", b"origin"} & headers.keys()
