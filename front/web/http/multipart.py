"""A file out of a form (multipart/form-data), as browsers and curl send one."""

from __future__ import annotations

from email.message import Message

from front.web.http.refusals import bad_request
from front.web.http.request import Request

MULTIPART = "multipart/form-data"
HEAD_BYTES_MAX = 4_096  # of a part
PARTS_MAX = 16  # that are looked at


def sent_file(request: Request, name: str) -> bytes:
    """The body, or the part of that name where the body is a form. Raises HttpError 400."""
    content_type = _header("content-type", request.headers.get(b"content-type", b""))
    if content_type.get_content_type() != MULTIPART:
        return request.body
    boundary = content_type.get_param("boundary")
    if not isinstance(boundary, str) or not boundary:
        raise bad_request(f"the content type is {MULTIPART} and names no boundary")
    found = _part(request.body, b"--" + boundary.encode("latin-1", "replace"), name)
    if found is None:
        raise bad_request(f"the form has no part named '{name}'")
    return found


def _part(body: bytes, delimiter: bytes, name: str) -> bytes | None:
    """Parts lie between delimiters; each is a head, an empty line, and what was sent."""
    begin = body.find(delimiter)
    for _ in range(PARTS_MAX if begin >= 0 else 0):
        begin += len(delimiter)
        end = body.find(b"\r\n" + delimiter, begin)
        head_end = body.find(b"\r\n\r\n", begin, begin + HEAD_BYTES_MAX)
        if end < 0 or head_end < 0:
            return None
        if _name(body[begin:head_end]) == name:
            return body[head_end + 4 : end]
        begin = end + 2
    return None


def _name(head: bytes) -> str | None:
    for line in head.split(b"\r\n"):
        field, _, value = line.partition(b":")
        if field.strip().lower() == b"content-disposition":
            found = _header("content-disposition", value.strip()).get_param("name", header="content-disposition")
            return found if isinstance(found, str) else None
    return None


def _header(field: str, value: bytes) -> Message:
    message = Message()
    message[field] = value.decode("latin-1")
    return message
