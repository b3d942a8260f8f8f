"""links/sockets.py: files that a URI names, which anybody may have chosen who declares a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from links.sockets import PEM_BYTES_MAX, client_context
from links.world import TlsTerms


@pytest.mark.parametrize("which", ["ca_file", "certificate_file", "key_file"])
def test_what_has_no_end_is_not_read(which: str, tmp_path: Path) -> None:
    """The event loop read /dev/zero for ever, on each node that became the owner of the shovel."""
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    large.touch()
    os.truncate(large, PEM_BYTES_MAX + 1)
    for path in ("/dev/zero", str(pipe), str(large), str(tmp_path)):
        with pytest.raises(ValueError, match="is no file of PEM"):
            client_context(TlsTerms("h", verify=True, **{which: path}))


def test_a_file_that_is_not_there_is_said() -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        client_context(TlsTerms("h", verify=True, ca_file="/nowhere.pem"))
