"""Values of tables are named and compared as RabbitMQ does it."""

from decimal import Decimal
from typing import Any

from broker.table_values import same, type_name
from wire.amqp.tables import Timestamp


def test_types_have_their_amqp_names() -> None:
    values: list[Any] = [True, 1, 2**40, None, 1.0, "a", b"a", [], {}, Decimal(1), Timestamp(1)]
    assert [type_name(value) for value in values] == [
        "bool", "signedint", "long", "void", "double", "longstr", "binary", "array", "table", "decimal", "timestamp",
    ]  # fmt: skip


def test_numbers_are_the_same_by_value_and_true_is_not_one() -> None:
    assert same(1, 1.0) and same("a", "a") and same(True, True)
    assert not same(True, 1) and not same(0, False) and not same("1", 1)
    assert same(float("nan"), float("nan")) and not same(float("nan"), 1.0), "what is declared so can be declared again"
