"""The management page: static files that come with the package, held in memory and answered by name, never by a path.

    /                                  the document, checked for changes each time it is opened
    /page/VERSION/NAME                 what it is made of: modules, style sheets, pictures
    /page/VERSION/FOLDER/NAME

VERSION is a hash of all files together, so that browsers keep them for ever and still never mix those of two releases. Under
another version, as another node of a cluster that is being upgraded may have it, the same names are answered, but not kept.

The page may load and ask this node only, and run nothing but these files: what a queue, a user or a message is called can
never become a script (POLICY).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from front.web.http.refusals import missing
from front.web.http.request import Request, Response
from front.web.router import WebRouter
from front.web.security.access import Right

DOCUMENT = "index.html"
VERSION_PLACE = b"VERSION"  # in the document, where the paths of the other files have the version
TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",  # no text becomes markup, not even by mistake
        "trusted-types 'none'",
    )
)
SECURITY = (
    ("Content-Security-Policy", POLICY),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
KEPT = ("Cache-Control", "public, max-age=31536000, immutable")
CHECKED = ("Cache-Control", "no-cache")


@dataclass(slots=True, frozen=True)
class PageFile:
    """One file as it is sent."""

    body: bytes
    content_type: str
    tag: str  # its ETag

    def answer(self, request: Request, caching: tuple[str, str]) -> Response:
        status = 304 if self.tag in _tags(request) else 200
        return Response(status, self.body, self.content_type, (("ETag", self.tag), caching, *SECURITY))


class PageFiles:
    """Answers for the page. What needs a login are the paths of the API that it asks."""

    def __init__(self) -> None:
        self._version, self._files = read_page()

    def add_routes(self, router: WebRouter) -> None:
        router.add("GET", "/", self._get_document, Right.NONE)
        router.add("GET", "/page/{version}/{name}", self._get_file, Right.NONE)
        router.add("GET", "/page/{version}/{folder}/{name}", self._get_file, Right.NONE)

    async def _get_document(self, request: Request) -> Response:
        return self._files[DOCUMENT].answer(request, CHECKED)

    async def _get_file(self, request: Request, version: str, name: str, folder: str = "") -> Response:
        found = self._files.get(f"{folder}/{name}" if folder else name)
        if found is None:
            raise missing("the page has no such file")
        return found.answer(request, KEPT if version == self._version else CHECKED)


@cache
def read_page() -> tuple[str, dict[str, PageFile]]:
    """Its version and its files by name, a folder before it where it lies in one."""
    raw = dict(_found(files("front.web") / "page", ""))
    version = _hash(b"\0".join(part for name in sorted(raw) for part in (name.encode(), raw[name])))
    raw[DOCUMENT] = raw[DOCUMENT].replace(VERSION_PLACE, version.encode())
    return version, {name: PageFile(body, TYPES[_ending(name)], f'"{_hash(body)}"') for name, body in raw.items()}


def _found(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    """What an editor leaves beside them does not belong to the page."""
    for one in folder.iterdir():
        if one.is_dir():
            yield from _found(one, f"{prefix}{one.name}/")
        elif _ending(one.name) in TYPES:
            yield f"{prefix}{one.name}", one.read_bytes()


def _ending(name: str) -> str:
    return name.rpartition(".")[2]


def _hash(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:16]


def _tags(request: Request) -> list[str]:
    """What the browser has already. A cache on the way may have marked a tag as weak."""
    given = request.headers.get(b"if-none-match", b"").decode("latin-1")
    return [one.strip().removeprefix("W/") for one in given.split(",")]
