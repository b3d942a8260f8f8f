"""The rig itself: silence is no error to who sends, and no news to who would receive, until it ends."""

from __future__ import annotations

import select
import subprocess
import sys

import pytest

from tests.crash import datagram_probe, silence
from tests.running_node import read_line

RECEIVE = """
import socket, sys
with socket.create_server((sys.argv[1], 7001)) as server:
    print("ready", flush=True)
    connection, _ = server.accept()
    while data := connection.recv(99):
        print(data.decode(), flush=True)
"""
SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], 7001)) as connection:
    for line in sys.stdin:
        connection.sendall(line.strip().encode())
        print("sent", flush=True)
"""
WITHIN_S = 10.0
SILENT_S = 0.5


def begin(network: silence.SilentNetwork, number: int, program: str, host: str) -> subprocess.Popen[str]:
    command = [*network.enter(number), sys.executable, "-c", program, host]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def send(sender: subprocess.Popen[str], text: str) -> None:
    assert sender.stdin is not None
    sender.stdin.write(text + "\n")
    sender.stdin.flush()
    assert read_line(sender, WITHIN_S).strip() == "sent"


needs_silence = pytest.mark.skipif(silence.available() is not None, reason=f"no silence here: {silence.available()}")


@needs_silence
def test_a_cut_that_drops_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    with silence.silent_network(3) as network:
        network.silence(1, [2])  # each direction by itself
        network.heal()
        with monkeypatch.context() as patched:
            patched.setattr(silence, "run", lambda *command: None)
            with pytest.raises(silence.NotAsAsked, match="node 1 hears 2"):
                network.silence(1, [2])


@needs_silence
def test_a_healing_that_heals_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datagram_probe, "HEARD_WITHIN_S", 0.5)
    with silence.silent_network(3) as network:
        network.silence(3, [1, 2])
        with monkeypatch.context() as patched:
            patched.setattr(silence, "run", lambda *command: None)
            with pytest.raises(silence.NotAsAsked, match="node 3 does not hear 1, node 3 does not hear 2"):
                network.heal()


@needs_silence
def test_what_is_sent_into_silence_is_neither_refused_nor_heard() -> None:
    with silence.silent_network(2) as network:
        receiver = begin(network, 1, RECEIVE, network.host(1))
        assert read_line(receiver, WITHIN_S).strip() == "ready"
        sender = begin(network, 2, SEND, network.host(1))
        try:
            send(sender, "before")
            assert read_line(receiver, WITHIN_S).strip() == "before"
            network.silence(1, [2])
            send(sender, "meanwhile")
            assert not select.select([receiver.stdout], [], [], SILENT_S)[0]
            network.heal()
            assert read_line(receiver, WITHIN_S).strip() == "meanwhile"
        finally:
            for process in (sender, receiver):
                process.kill()
                process.communicate()
