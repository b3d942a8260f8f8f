"""Large answers are compressed for those who say that they can read it, beside the event loop."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence
from dataclasses import replace

from front.web.http.request import Request, Response

BYTES_MIN = 1_024  # smaller ones travel as fast
INLINE_BYTES_MAX = 32_768  # 0.3 ms
LEVEL = 1  # a tenth of the size of a list already, at 100 MB a second
GZIP_WINDOW = 31  # of 32 KiB, with gzip's head and end
TEXTS = ("application/json", "text/", "application/javascript", "image/svg+xml")


async def compressed(request: Request, response: Response) -> Response:
    pieces = response.pieces or (response.body,)
    size = sum(map(len, pieces))
    if size < BYTES_MIN or not _is_readable(request) or not response.content_type.startswith(TEXTS):
        return response
    headers = (*response.headers, ("Content-Encoding", "gzip"))
    if size <= INLINE_BYTES_MAX:
        return replace(response, body=b"".join(_gzip(pieces)), pieces=(), headers=headers)
    made = await asyncio.get_running_loop().run_in_executor(None, _gzip, pieces)
    return replace(response, body=b"", pieces=made, headers=headers)


def _gzip(pieces: Sequence[bytes]) -> list[bytes]:
    """The same bytes for the same text: there is no time in it."""
    compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP_WINDOW)
    made = [compressor.compress(piece) for piece in pieces]
    return [piece for piece in (*made, compressor.flush()) if piece]


def _is_readable(request: Request) -> bool:
    """`gzip;q=0` says that it is not."""
    for one in request.headers.get(b"accept-encoding", b"").split(b","):
        coding, _, quality = one.partition(b";")
        if coding.strip().lower() in (b"gzip", b"*"):
            return quality.strip().replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False
