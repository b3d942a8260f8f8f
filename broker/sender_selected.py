"""Messages that say themselves where to go: further keys in the headers CC and BCC, or headers that an exchange matches."""

from __future__ import annotations

from typing import Any

from broker.errors import PreconditionFailed
from broker.tables import decode_value, join_properties, join_table, split_properties, split_table, type_name

HEADER_KINDS = ("CC", "BCC")


class Selected:
    """One message taken apart as far as its routing needs it."""

    __slots__ = ("_fields", "_headers", "props")

    def __init__(self, props: bytes) -> None:
        self.props = props
        self._fields = split_properties(props)
        self._headers = split_table(self._fields["headers"]) if "headers" in self._fields else {}

    def headers(self) -> dict[str, Any] | None:
        if not self._headers:
            return None
        return {name: decode_value(raw)[0] for name, raw in self._headers.items()}

    def further_keys(self) -> list[str]:
        """Raises PreconditionFailed when CC or BCC is no list; what is no text within it is passed over."""
        keys: list[str] = []
        for name in HEADER_KINDS:
            if name in self._headers:
                value = decode_value(self._headers[name])[0]
                if not isinstance(value, list):
                    raise PreconditionFailed(
                        f'invalid message: {{unacceptable_type_in_header,"{name}",{type_name(value)}}}'
                    )
                keys += [key for key in value if isinstance(key, str)]
        return keys

    def without_bcc(self) -> bytes:
        """The properties as receivers may see them."""
        if "BCC" not in self._headers:
            return self.props
        kept = {name: raw for name, raw in self._headers.items() if name != "BCC"}
        return join_properties({**self._fields, "headers": join_table(kept)})
