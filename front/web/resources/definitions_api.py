"""The management API's paths about definitions: all that is declared, as one document."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b

from broker.operations.import_plan import ImportReport
from front.definitions import check_definitions, exported_pieces, import_definitions
from front.slices import made_in_slices
from front.web.handlers import WebFront, operator
from front.web.http.multipart import sent_file
from front.web.http.request import Request, Response, json_response
from front.web.router import WebRouter
from front.web.security.access import Right

FILE_NAME = re.compile(r"[^A-Za-z0-9._-]+")
FILE_NAME_CHARACTERS_MAX = 128


class DefinitionsApi:
    """See the module."""

    def __init__(self, front: WebFront) -> None:
        self._front = front
        self._documents = front.operations.documents

    def add_routes(self, router: WebRouter) -> None:
        for path in ("/api/definitions", "/api/definitions/{vhost}", "/api/all-configuration"):
            router.add("GET", path, self._get, Right.ADMINISTRATOR)
            router.add("POST", path, self._post, Right.ADMINISTRATOR)

    async def _get(self, request: Request, vhost: str | None = None) -> Response:
        """With hashes of passwords, unless `password-hashes=false`; `download=NAME` has browsers keep it as a file."""
        hashes = request.asked("password-hashes") != "false"
        pieces = await exported_pieces(self._documents, operator(request), vhost, password_hashes=hashes)
        tag = await _tag(pieces)
        headers = [("ETag", tag)]
        if request.asked("download") is not None:
            headers.append(("Content-Disposition", f'attachment; filename="{_file_name(request)}"'))
        if request.headers.get(b"if-none-match") == tag.encode():
            return Response(304, headers=tuple(headers))
        body, more = (pieces[0], []) if len(pieces) == 1 else (b"", pieces)
        return Response(200, body, headers=tuple(headers), pieces=more)

    async def _post(self, request: Request, vhost: str | None = None) -> Response:
        """`dry-run=true` says what would change and changes nothing; `report=true` says it afterwards."""
        raw, who = sent_file(request, "file"), operator(request)
        if request.asks("dry-run"):
            return _told(await check_definitions(self._documents, who, raw, vhost))
        report = await import_definitions(self._documents, who, raw, vhost, self._front.broker.end_turn)
        return _told(report) if request.asks("report") else Response(204)


async def _tag(pieces: Sequence[bytes]) -> str:
    digest = blake2b(digest_size=16)
    async for piece in made_in_slices(iter(pieces)):
        digest.update(piece)
    return f'"{digest.hexdigest()}"'


def _told(report: ImportReport) -> Response:
    return json_response({"counts": report.counts, "effects": report.effects})


def _file_name(request: Request) -> str:
    """Whatever the query says is in a header."""
    return FILE_NAME.sub("_", request.asked("download") or "")[:FILE_NAME_CHARACTERS_MAX] or "definitions.json"
