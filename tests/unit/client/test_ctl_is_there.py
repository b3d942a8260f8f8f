"""What leveretctl says was there before it deleted it."""

from __future__ import annotations

import asyncio

import pytest

from leveret.ctl.terminal.run import is_there
from leveret.errors import AccessRefused, LeveretError, NotFound, QueueAway


@pytest.mark.parametrize(
    ("answer", "there"),
    [
        (None, True),
        (NotFound("home node: its text says nothing"), False),
        (QueueAway("no text says anything"), True),
    ],
)
def test_the_kind_of_the_error_says_whether_something_is_there_and_not_its_text(
    answer: LeveretError | None, there: bool
) -> None:
    async def asked() -> None:
        if answer is not None:
            raise answer

    assert asyncio.run(is_there(asked())) is there


def test_who_may_not_ask_is_told_so() -> None:
    async def asked() -> None:
        raise AccessRefused("configure access refused")

    with pytest.raises(AccessRefused):
        asyncio.run(is_there(asked()))
