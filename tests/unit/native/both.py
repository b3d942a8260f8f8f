"""Both forms of a kernel, for test classes that run over the two."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import pytest

from native import compiled_twin


def forms(kernel: str, *names: str) -> list[object]:
    """pytest parameters: a namespace with the plain functions, and one with the compiled ones where they are built."""
    definition = importlib.import_module(f"native.{kernel}")
    plain = SimpleNamespace(**{name: getattr(definition, f"{name}_plain") for name in names})
    twin = compiled_twin(kernel)
    if twin is None:
        return [pytest.param(plain, id="plain")]
    compiled = SimpleNamespace(**{name: getattr(twin, name) for name in names})
    return [pytest.param(plain, id="plain"), pytest.param(compiled, id="compiled")]
