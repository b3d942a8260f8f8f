"""What a node was configured with, one key a line, for operators: without what lets somebody in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from node.config import Config

HIDDEN = "[hidden]"
# Passwords and secrets; URIs of shovels, which hold some.
SECRET = re.compile(r"(^|[._-])(password|secret|uris?)$")
LOGIN = re.compile(r"(?<=://)[^/?#\s\"]*@")  # in a URL, such as that of an issuer's keys


def effective_config(config: Config) -> str:
    """Keys as in the file, with defaults where it says nothing."""
    return "".join(f"{key} = {value}\n" for key, value in _lines("", msgspec.to_builtins(config)))


def _lines(above: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        key = f"{above}{name}"
        if isinstance(value, Mapping):
            yield from _lines(f"{key}.", value)
        elif isinstance(value, (list, tuple)) and any(isinstance(one, Mapping) for one in value):
            for place, one in enumerate(value):
                yield from _lines(f"{key}.{place}.", one)
        elif value and SECRET.search(key):
            yield key, HIDDEN
        else:
            yield key, LOGIN.sub(f"{HIDDEN}@", msgspec.json.encode(value).decode())
