"""Logins that last: a browser that has given a password once is known by a cookie.

The cookie holds 32 random bytes and nothing else; here their digest is kept, so that nobody who reads this process's memory can
log in with it. A login ends when its time is up, or that of the token that began it, at a logout, when its user is deleted or
gets another password, and when the node stops. It is good from the source that it was begun from only: what was stolen on the
way is of no use elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from broker.login.client_address import ClientAddress
from broker.records import UserRecord
from broker.vouched.vouched_user import VouchedUser
from front.web.http.request import Request

COOKIE = "leveret_session_"  # and the node: cookies know no ports, and several nodes may be one host to a browser
TOKEN_BYTES = 32
LOGINS_MAX = 4_096  # of all users; the oldest give way
LOGINS_OF_USER_MAX = 64
LOOPBACK = "loopback"  # a browser reaches localhost by one of its addresses or the other


@dataclass(slots=True, frozen=True)
class BrowserLogin:
    """Of one browser."""

    user: UserRecord  # as it was at the login
    source: str
    ends_at_ms: int


class BrowserLogins:
    """All of this node. `user_named` answers who there is now."""

    def __init__(self, user_named: Callable[[str], UserRecord | None], node: str, minutes: int) -> None:
        self._user_named = user_named
        self._cookie = COOKIE + hashlib.blake2b(node.encode(), digest_size=4).hexdigest()
        self.minutes = minutes
        self._logins: OrderedDict[bytes, BrowserLogin] = OrderedDict()  # by the token's digest, oldest first

    def __len__(self) -> int:
        return len(self._logins)

    def token_of(self, request: Request) -> str | None:
        """What the request's cookie holds."""
        for one in request.headers.get(b"cookie", b"").split(b";"):
            name, _, value = one.strip().partition(b"=")
            if name == self._cookie.encode():
                return value.decode("latin-1")
        return None

    def header(self, request: Request, token: str, seconds: int) -> tuple[str, str]:
        """What has a browser keep the token, or forget it after 0 seconds."""
        secure = "; Secure" if request.tls else ""
        return "Set-Cookie", f"{self._cookie}={token}; Path=/api; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}"

    def begin(self, user: UserRecord, client: ClientAddress, now_ms: int) -> str:
        """Answers the token."""
        self._forget_ended(now_ms)
        own = [digest for digest, login in self._logins.items() if login.user.name == user.name]
        for digest in own[: max(0, len(own) - LOGINS_OF_USER_MAX + 1)]:
            del self._logins[digest]
        if len(self._logins) >= LOGINS_MAX:
            self._logins.popitem(last=False)
        token = base64.urlsafe_b64encode(secrets.token_bytes(TOKEN_BYTES)).rstrip(b"=").decode()
        self._logins[_digest(token)] = BrowserLogin(user, _source(client), now_ms + self.minutes * 60_000)
        return token

    def user_of(self, token: str, client: ClientAddress, now_ms: int) -> UserRecord | None:
        """As the user is now; None: the token is of no login, or not from there."""
        login = self._logins.get(_digest(token))
        if login is None or login.source != _source(client):
            return None
        current = self._current(login.user, now_ms)
        if now_ms >= login.ends_at_ms or current is None:
            del self._logins[_digest(token)]
            return None
        return current

    def _current(self, user: UserRecord, now_ms: int) -> UserRecord | None:
        """None: who logged in as this user could not do so now."""
        if isinstance(user, VouchedUser):
            return None if user.has_ended(now_ms) else user
        current = self._user_named(user.name)
        return current if current is not None and current.password_hash == user.password_hash else None

    def end(self, token: str) -> None:
        self._logins.pop(_digest(token), None)

    def _forget_ended(self, now_ms: int) -> None:
        while self._logins and next(iter(self._logins.values())).ends_at_ms <= now_ms:
            self._logins.popitem(last=False)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _source(client: ClientAddress) -> str:
    return LOOPBACK if client.loopback else client.source
