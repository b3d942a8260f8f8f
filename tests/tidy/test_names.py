"""Names say what things are, one word for one thing; and what must not be in this code is not."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter

import pytest

from tests.tidy.sources import ROOT, called, defined, folder, imported, sources, words

# The same name in sibling folders is meant: one can be read beside the other. So is that of a port and of what fulfils it.
SIBLINGS = {
    "__init__", "__main__", "server", "errors", "connection", "consumer", "consumers", "publish", "driver", "queue", "session",
}  # fmt: skip
PORTS = {
    "alarms": ("broker", "node"),
    "metadata": ("broker", "node"),
    "names": ("broker", "storage"),
    "browsing": ("classic", "quorum", "stream"),
    "queue_figures": ("classic", "quorum", "stream"),
    "entries": ("quorum", "stream"),  # where bodies lie; the commands of a stream
    "letters": ("quorum", "replicated", "stream"),  # of one kind of queue; of all whose log is a group
    "leading": ("quorum", "stream"),
    "machine": ("quorum", "raft", "stream"),
    "member": ("quorum", "replicated", "stream"),  # with the machine of a kind of queue; as every group has it
    "rules": ("quorum", "stream"),
    "ready": ("quorum", "raft"),  # messages that wait for a consumer; what a member's core wants done
    "limits": ("broker", "classic"),  # what a client may open, how long a queue may get
}
# Public classes of one name, with their files. What stands here waits for a name; nothing is added.
SAME_NAME = {
    "Background": ("node/background.py", "storage/beside_loop.py"),  # the port of each: with results, and without
    "Connection": ("broker/client_connection.py", "front/amqp/connection.py"),  # a client's; the state machine of AMQP
    "Damage": ("classic/store/salvage.py", "storage/wal/replay.py"),  # in a segment's bytes; in the log
    "Limits": ("broker/limits.py", "front/amqp/terms.py"),  # of this node; in connection.tune
    "Loop": ("raft/loop.py", "storage/wal/thread.py"),  # the port of each to the event loop
    "Segment": ("classic/store/queue_index.py", "storage/segment.py"),  # of a queue's index; of a replicated log
}
EMPTY_WORDS = {"util", "utils", "helper", "helpers", "misc", "common", "manager", "impl", "stuff", "base", "core2"}

# Word -> the folders in which it may name something. docs/glossary.md says what each means.
ONLY_IN = {
    "quorum": (
        "analytics",
        "broker",
        "node",
        "quorum",
    ),  # a kind of queue, and its arguments; arithmetic is called majority
    "majority": ("raft",),
    # By a majority; what one node has fsynced is durable.
    "committed": ("node", "client", "front", "raft", "stream", "wire", "analytics"),
    "master": (),
    "slave": (),
    "mirror": (),
    "whitelist": (),
    "blacklist": (),
}
# File -> words of the other half: confirms go to publishers, acknowledgements come from consumers.
NOT_IN = {
    "broker/messages/confirms.py": {"ack", "acks", "acked", "nack", "acknowledge", "acknowledged", "settle", "settled"},
    "broker/session/deliveries.py": {"confirm", "confirms", "confirmed"},
    "storage/wal/group_commit.py": {"confirm", "confirmed", "ack", "acknowledged"},
}

FORBIDDEN_MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "jsonpickle", "code", "imp"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "yaml.load", "yaml.unsafe_load", "os.system", "os.popen"}
RUNS_OUR_CODE = ["Makefile", ".ci/run", "deploy/Dockerfile", "deploy/leveret.service", "deploy/compose.yaml"]


def test_file_names_say_what_is_in_them() -> None:
    empty = [name for name in sources() if words(stem(name)) & EMPTY_WORDS]
    assert empty == []


def test_a_file_name_is_used_once_or_for_siblings() -> None:
    counted = Counter((folder(name), stem(name)) for name in sources())
    assert {key: count for key, count in counted.items() if count > 1 and key[1] not in SIBLINGS} == {}
    folders: dict[str, list[str]] = {}
    for name in sources():
        if not name.startswith(("client/", "front/")):
            folders.setdefault(stem(name), []).append(folder(name))
    twice = {name: tuple(where) for name, where in folders.items() if len(where) > 1 and name not in SIBLINGS}
    assert twice.items() <= PORTS.items(), "two files of one name: is one of them misnamed?"


def test_a_class_name_is_used_once() -> None:
    files: dict[str, list[str]] = {}
    for name, tree in sources().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not name.startswith("client/"):
                files.setdefault(node.name, []).append(name)
    assert {name: tuple(where) for name, where in files.items() if len(where) > 1} == SAME_NAME


def test_each_module_says_what_it_is_for() -> None:
    assert [name for name, tree in sources().items() if not ast.get_docstring(tree)] == []


def test_words_keep_their_meaning() -> None:
    mixed = []
    for name, tree in sources().items():
        for identifier in set(defined(tree)):
            used = words(identifier)
            mixed += [
                f"{name}: {identifier}" for word, where in ONLY_IN.items() if word in used and folder(name) not in where
            ]
            if used & NOT_IN.get(name, set()):
                mixed.append(f"{name}: {identifier}")
    assert mixed == []


def test_nothing_unpickles_or_evaluates() -> None:
    modules = [
        f"{name}: {one}" for name, tree in sources().items() for one in imported(tree) if one in FORBIDDEN_MODULES
    ]
    assert modules == []
    calls = [
        f"{name}:{line}: {one}"
        for name, tree in sources().items()
        for one, line in called(tree)
        if one in FORBIDDEN_CALLS
    ]
    assert calls == []
    shells = [
        f"{name}:{node.lineno}"
        for name, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "shell"
    ]
    assert shells == []


@pytest.mark.parametrize("file", RUNS_OUR_CODE)
def test_assertions_are_never_switched_off(file: str) -> None:
    assert re.search(r"python3?\s+-O|PYTHONOPTIMIZE|\s-OO\b", (ROOT / file).read_text()) is None


def test_a_node_without_assertions_does_not_start() -> None:
    command = [sys.executable, "-O", "-m", "node.main", "serve", "--data-dir", "/nonexistent/leveret"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 78
    assert "-O" in done.stderr


def test_nothing_is_left_to_do_in_the_code() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    assert [name for name in sources() if marks.search((ROOT / name).read_text())] == []


def stem(name: str) -> str:
    return name.rpartition("/")[2].removesuffix(".py")
