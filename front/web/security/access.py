"""Who may ask a path: the management API's rights, one for each route.

A refusal is 401, never 403, as with RabbitMQ; a vhost that the caller may not use is 404, whether it exists or not. What is
behind a path checks the rights of its operation as well: this says so before anything else is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from broker.operations.operator import ADMINISTRATOR, MANAGEMENT, MONITORING, POLICYMAKER, Operator
from broker.operations.vhosts import Vhosts
from front.web.http.request import HttpError


class Right(Enum):
    """What a route asks of its caller."""

    NONE = ""  # not even a login
    MANAGEMENT = MANAGEMENT  # lists are cut to what the caller may see
    VHOST = "vhost"  # management, and permissions in the vhost that the path names; administrators always
    MONITORING = MONITORING
    VHOST_MONITORING = "vhost and monitoring"
    POLICYMAKER = POLICYMAKER
    VHOST_POLICYMAKER = "vhost and policymaker"
    ADMINISTRATOR = ADMINISTRATOR

    @property
    def tag(self) -> str:
        return _TAGS.get(self, self.value)

    @property
    def of_vhost(self) -> bool:
        return self in _TAGS


_TAGS = {
    Right.VHOST: MANAGEMENT,
    Right.VHOST_MONITORING: MONITORING,
    Right.VHOST_POLICYMAKER: POLICYMAKER,
}
_SAID = {
    MANAGEMENT: "Not management user",
    MONITORING: "Not monitor user",
    POLICYMAKER: "User not authorised to access object",
    ADMINISTRATOR: "Not administrator user",
}


def check_access(right: Right, who: Operator, named: Mapping[str, str], vhosts: Vhosts) -> None:
    """Raises HttpError 401 or 404."""
    for tag in (MANAGEMENT, right.tag):
        if not who.has_tag(tag):
            raise HttpError(401, "not_authorised", _SAID[tag])
    if right.of_vhost and "vhost" in named and not vhosts.may_use(who, named["vhost"]):
        said = f"no vhost '{named['vhost']}'" if who.has_tag(ADMINISTRATOR) else "Not Found"
        raise HttpError(404, "not_found", said)
