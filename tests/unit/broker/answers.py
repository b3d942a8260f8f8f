"""What a question that is answered at once was answered."""

from __future__ import annotations

from typing import Any

from broker.errors import BrokerError
from broker.pending import Pending


def answer(pending: Pending[Any]) -> Any:
    """Raises the BrokerError that is the answer."""
    got: list[Any] = []
    pending.then(got.append, got.append)
    assert got, "not answered"
    if isinstance(got[0], BrokerError):
        raise got[0]
    return got[0]
