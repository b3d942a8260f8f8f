"""Whole numbers that clients write as text, where a body, a query, a path or an argument should have one."""

from __future__ import annotations


def whole_number(text: str, digits_max: int, *, signed: bool = False) -> int | None:
    """None: it is not one, or longer than any that could be meant."""
    digits = text.removeprefix("-") if signed else text
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= digits_max else None
