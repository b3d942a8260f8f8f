"""One entry of a document of definitions: its fields, each read as what it has to be, and where it stands.

Everything raises PreconditionFailed naming the place.
"""

from __future__ import annotations

from typing import Any, TypeVar

from broker.catalog.arguments import encoded_arguments
from broker.catalog.commands.command_types import NUMBER_MAX, NUMBER_MIN
from broker.errors import PreconditionFailed
from broker.json_values import table_from_json
from wire.amqp.tables import NESTING_MAX

T = TypeVar("T")
Json = dict[str, Any]

# A table of AMQP, in the definition of an operator policy. What is deeper than Python's stack could be kept, and never be told
# again.
ENTRY_NESTING_MAX = NESTING_MAX + 2


class DefinitionItem:
    """See the module. `vhost`: where everything goes to; None: each entry says for itself."""

    def __init__(self, where: str, value: Any, vhost: str | None = None) -> None:
        if not isinstance(value, dict):
            raise PreconditionFailed(f"{where} is a JSON {type(value).__name__}, an object is needed")
        if not nested_at_most(value, ENTRY_NESTING_MAX):
            raise PreconditionFailed(f"{where} has more than {ENTRY_NESTING_MAX} lists or objects within each other")
        self.where = where
        self._values = value
        self._vhost = vhost

    @property
    def vhost(self) -> str:
        return self.text("vhost") if self._vhost is None else self._vhost

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str | None = None) -> str:
        return self._typed(name, str, "a text", default)

    def flag(self, name: str, default: bool = False) -> bool:
        return self._typed(name, bool, "true or false", default)

    def number(self, name: str, default: int = 0) -> int:
        value = self._typed(name, int, "a number", default)
        if isinstance(value, bool):
            raise PreconditionFailed(f"{self.where}: '{name}' is {value!r}, a number is needed")
        if not NUMBER_MIN <= value <= NUMBER_MAX:
            raise PreconditionFailed(f"{self.where}: '{name}' is {value}, a number from -2^63 to 2^63 - 1 is needed")
        return value

    def table(self, name: str) -> Json:
        value = self._values.get(name, {})
        if value == []:  # how an empty object looks where RabbitMQ has lost its type
            return {}
        return self._typed(name, dict, "an object", {})

    def amqp_table(self, name: str) -> Json:
        """What AMQP cannot carry is refused here, before anything is applied."""
        table = table_from_json(self.table(name))
        try:
            encoded_arguments(table)
        except PreconditionFailed as error:
            raise PreconditionFailed(f"{self.where}: '{name}': {error.text}") from error
        return table

    def part(self, name: str) -> DefinitionItem:
        """A nested object."""
        return DefinitionItem(f"{self.where}.{name}", self.table(name), self._vhost)

    def limits(self) -> dict[str, int]:
        return self.numbers("limits")

    def numbers(self, name: str) -> dict[str, int]:
        """All that the nested object has."""
        numbers = self.part(name)
        return {one: numbers.number(one) for one in self.table(name)}

    def tags(self) -> tuple[str, ...]:
        value = self._values.get("tags", [])
        if isinstance(value, str):
            value = [tag.strip() for tag in value.split(",") if tag.strip()]
        if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
            raise PreconditionFailed(f"{self.where}: 'tags' is {value!r}: give a list of texts or one text with commas")
        return tuple(value)

    def anything(self, name: str) -> Any:
        if name not in self._values:
            raise PreconditionFailed(f"{self.where}: '{name}' is missing")
        return self._values[name]

    def _typed(self, name: str, kind: type[T], needed: str, default: T | None) -> T:
        value = self._values.get(name)
        if value is None:  # null is nothing: some tools write all keys
            value = default
        if value is None:
            raise PreconditionFailed(f"{self.where}: '{name}' is missing")
        if not isinstance(value, kind):
            shown = f"a JSON {type(value).__name__}" if name.startswith("password") else repr(value)
            raise PreconditionFailed(f"{self.where}: '{name}' is {shown}, {needed} is needed")
        return value


def nested_at_most(value: Any, levels: int) -> bool:
    if not isinstance(value, (dict, list)):
        return True
    parts = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(nested_at_most(part, levels - 1) for part in parts)
