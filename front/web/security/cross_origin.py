"""CORS: pages of other sites that the operator allows (management.cors_allow_origins).

An origin that is named may ask with a login. `*` lets every page ask, and never with a login that its browser keeps: the page
has to have one of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from front.web.http.request import Request

ANY = "*"
METHODS = "HEAD, GET, POST, PUT, DELETE, OPTIONS"
Headers = tuple[tuple[str, str], ...]


@dataclass(slots=True, frozen=True)
class CrossOrigin:
    """What is allowed; nothing by default."""

    allow_origins: tuple[str, ...] = ()
    max_age_s: int = 1_800  # how long a browser may remember what it was allowed

    def trusts(self, request: Request) -> bool:
        """Whether the page that asks is of an origin that is named."""
        return _origin(request) in self.allow_origins

    def allows(self, request: Request) -> bool:
        """Whether the page may see answers."""
        return bool(_origin(request)) and (self.trusts(request) or ANY in self.allow_origins)

    def headers(self, request: Request) -> Headers:
        """Of the answer."""
        if not self.allow_origins or not self.allows(request):
            return ()
        if not self.trusts(request):
            return (("Access-Control-Allow-Origin", ANY), *self._preflight(request))
        allowed = ("Access-Control-Allow-Origin", _origin(request)), ("Access-Control-Allow-Credentials", "true")
        return (*allowed, *self._preflight(request))

    def _preflight(self, request: Request) -> Headers:
        """What a browser asks before it asks."""
        if request.method != "OPTIONS":
            return ()
        wanted = request.headers.get(b"access-control-request-headers", b"authorization, content-type")
        return (
            ("Access-Control-Allow-Methods", METHODS),
            ("Access-Control-Allow-Headers", wanted.decode("ascii", "ignore")),  # names of headers are ASCII
            ("Access-Control-Max-Age", str(self.max_age_s)),
        )


NO_CROSS_ORIGIN = CrossOrigin()


def _origin(request: Request) -> str:
    return request.headers.get(b"origin", b"").decode("latin-1")
