"""native/__init__.py: which kernels are in use, and who decides."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import native

ASK = "import native; print(native.backend(), *sorted(set(native.kernels().values())))"


def ask(wanted: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LEVERET_KERNELS": wanted}
    return subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, timeout=30)


def test_plain_is_obeyed() -> None:
    assert ask("plain").stdout.split() == ["plain", "plain"]


def test_compiled_is_obeyed_or_refused_with_what_to_do() -> None:
    answer = ask("compiled")
    if answer.returncode:
        assert "make setup" in answer.stderr
    else:
        assert answer.stdout.split() == ["compiled", "compiled"]


def test_any_other_word_is_refused() -> None:
    assert "LEVERET_KERNELS is 'fast': use auto, compiled or plain" in ask("fast").stderr


def test_one_plain_kernel_makes_the_backend_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "compiled_twin", lambda kernel: None if kernel == "deliver" else native)
    assert native.kernels()["deliver"] == "plain"
    assert native.kernels()["content"] == "compiled"
    assert native.backend() == "plain"
