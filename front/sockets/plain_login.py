"""A user and a password, and how the SASL mechanism PLAIN sends them: authorization id NUL user NUL password."""

from __future__ import annotations

from typing import NamedTuple

RESPONSE_BYTES_MAX = 16_384  # of a token; passwords are shorter


class MalformedResponse(ValueError):
    """Raised when a response does not have its mechanism's form. The text never holds what the client sent."""


class Credentials(NamedTuple):
    """A user's name and what is to prove it."""

    user: str
    password: bytes


def plain(response: bytes) -> Credentials:
    check_size(response)
    parts = response.split(b"\x00")
    if len(parts) != 3:
        raise MalformedResponse(f"a PLAIN response has 2 NULs, this one {len(parts) - 1}")
    return Credentials(_user(parts[1]), parts[2])


def check_size(response: bytes) -> None:
    if len(response) > RESPONSE_BYTES_MAX:
        raise MalformedResponse(f"a response of {len(response)} bytes, at most {RESPONSE_BYTES_MAX} are allowed")


def _user(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise MalformedResponse("the user name is not UTF-8") from None
