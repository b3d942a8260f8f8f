"""Plans that were kept as text (tests/scenarios/found), read again."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tests.sim.layers import Layer, layer_of
from tests.sim.plan import Ask, Fault, Plan


def read(text: str) -> Plan:
    """Raises ValueError with the line that makes no sense."""
    seed, layer = 0, layer_of("engine")
    shape = layer.shape()
    faults: list[Fault] = []
    asks: list[Ask] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            given = dict(word.split("=", 1) for word in words if "=" in word)
            match words[0]:
                case "layer":
                    layer = layer_of(words[1])
                    shape = layer.shape()
                case "seed":
                    seed = int(words[1])
                case "shape":
                    shape = layer.shape(**_typed(layer.shape, given))
                case "fault":
                    faults.append(
                        Fault(
                            at=float(words[1]), kind=_known(layer, words[2].replace("_", " ")), **_typed(Fault, given)
                        )
                    )
                case "ask":
                    asks.append(Ask(at=float(words[1]), **_typed(Ask, given)))
                case word:
                    raise ValueError(f"'{word}' is none of layer, seed, shape, fault, ask")
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise ValueError(f"line {number}, '{line}': {error}") from error
    return Plan(seed, shape, tuple(faults), tuple(asks), layer.name)


def _known(layer: Layer, kind: str) -> str:
    if kind not in layer.kinds:
        raise ValueError(f"'{kind}' is no kind of fault")
    return kind


def _typed(kind: type, given: dict[str, str]) -> dict[str, Any]:
    """What the fields of a dataclass are given, each as what it is."""
    types = {"int": int, "float": float, "str": str}
    wanted = {field.name: types[str(field.type)] for field in fields(kind)}
    return {name: wanted[name](value) for name, value in given.items()}
