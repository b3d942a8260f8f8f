"""Names are the client's, files are ours: whatever a queue is called, no file is called so, and no line of the log breaks."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.running_node import RunningNode, running_node
from tests.security import wire
from tests.security.guarded_node import CANARY, Http
from tests.security.wire import Peer

EMOJI = "🐇" * 63  # 252 bytes
NAMES = [
    "../../x", "/etc/passwd", "..", ".", "a/b/c", "nul\0byte", "x" * 255, "ü" * 127, EMOJI, "CON", "aux.txt", "a b",
    "%2e%2e%2f", "$(reboot)", "'; drop", '"quoted"', "\x1b[31mred", "‮reversed", "tab\tbell\x07", "{}", "x:y", "~root",
]  # fmt: skip
BROKEN_LINES = [("line\nbreak", "linebreak"), ("carriage\r\nreturn", "carriagereturn"), ("\n", "")]


def declare(peer: Peer, name: str, durable: bool = True) -> wire.Said:
    return peer.call(1, "queue.declare", queue=name, durable=durable)


@pytest.fixture
def peer(node: RunningNode) -> Peer:
    peer = Peer(node.amqp)
    peer.log_in("canary", CANARY)
    peer.open_channel()
    return peer


def files_below(folder: Path) -> list[Path]:
    return [Path(at) / name for at, _, names in os.walk(folder) for name in names]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_any_name_is_a_queue_and_no_file(node: RunningNode, peer: Peer, name: str) -> None:
    said = declare(peer, name)
    assert said.name == "queue.declare-ok", said.arguments
    assert said.arguments["queue"] == name
    peer.send(wire.method(1, "confirm.select"))
    peer.expect("confirm.select-ok")
    peer.send(wire.publish(1, "", name, b"kept"))
    peer.expect("basic.ack")
    status, text = Http(node).ask("GET", f"/api/queues/%2F/{quote(name, safe='')}")
    assert (status, "\n" in text) == (200, False), text
    for path in files_below(node.data_dir.parent):
        assert path.name.isascii(), path
        assert "x" * 20 not in path.name, path
        assert "passwd" not in path.name, path
    assert not (node.data_dir.parent / "x").exists()
    assert not (node.data_dir.parent.parent / "x").exists()
    peer.send(wire.method(1, "basic.get", queue=name, no_ack=True))
    peer.expect("basic.get-ok")
    peer.expect("header")
    assert peer.expect("body").payload == b"kept"
    assert peer.call(1, "queue.delete", queue=name).name == "queue.delete-ok"


@pytest.mark.parametrize(("name", "kept"), BROKEN_LINES, ids=ascii)
def test_line_breaks_are_taken_out_of_names(peer: Peer, name: str, kept: str) -> None:
    said = declare(peer, name, durable=False)
    assert said.name == "queue.declare-ok"
    assert said.arguments["queue"].startswith(kept or "amq.gen-")
    peer.call(1, "queue.delete", queue=said.arguments["queue"])


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"ok\x80", b"\xed\xa0\x80", b"\xc0\xaf"], ids=repr)
def test_a_name_that_is_no_text_is_refused(peer: Peer, raw: bytes) -> None:
    payload = wire.method(1, "queue.declare", queue="N" * len(raw))[7:-1].replace(b"N" * len(raw), raw)
    peer.send(wire.frame(wire.METHOD, 1, payload))
    said = peer.expect("connection.close", "channel.close")
    assert said.code in (406, 501, 502)


def test_names_in_the_log_stay_on_their_line(node: RunningNode) -> None:
    """A user and a vhost that would forge a line, and colour the terminal of whoever reads it."""
    forged = "x\n2026-01-01T00:00:00.000Z info leveret.amqp: forged\x1b[31m"
    with Peer(node.amqp) as peer:
        peer.start()
        peer.send(wire.start_ok(forged, "x", client_properties={"connection_name": forged}))
        peer.closed_with()
    with Peer(node.amqp) as peer:
        peer.start()
        peer.send(wire.start_ok("canary", CANARY), wire.tune_ok())
        peer.expect("connection.tune")
        peer.send(wire.method(0, "connection.open", virtual_host=forged))
        peer.expect("connection.close")
        peer.send(wire.method(0, "connection.close-ok"))
        assert peer.hung_up()
    log = node.log.read_text()
    assert "\x1b" not in log
    assert not any(line.endswith("forged") or ": forged" in line[:60] for line in log.splitlines())


def test_files_and_folders_are_their_owners_alone(node: RunningNode, peer: Peer) -> None:
    declare(peer, "kept-for-a-while")
    for folder, _, names in os.walk(node.data_dir):
        mode = stat.S_IMODE(os.stat(folder).st_mode)
        assert mode == 0o700, f"{folder} is {mode:o}"
        for name in names:
            mode = stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode)
            assert mode == 0o600, f"{name} in {folder} is {mode:o}"
    peer.call(1, "queue.delete", queue="kept-for-a-while")


def test_a_data_directory_behind_a_link_is_one_node_and_open_to_nobody(tmp_path: Path) -> None:
    """The link is followed; a second node finds the first one's lock whichever way it comes."""
    real = tmp_path / "real"
    real.mkdir(mode=0o755)
    link = tmp_path / "link"
    link.symlink_to(real, target_is_directory=True)
    with running_node(data_dir=link) as first:
        with Peer(first.amqp) as peer:
            peer.log_in()
        assert files_below(real), "the data lies where the link leads"
        with pytest.raises(RuntimeError, match=r"in use|lock|another"), running_node(data_dir=real):
            pass
        for path in files_below(real):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        for folder in (path for path in real.rglob("*") if path.is_dir()):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
        assert stat.S_IMODE(real.stat().st_mode) == 0o755, "the operator's own folder stays as it was made"
