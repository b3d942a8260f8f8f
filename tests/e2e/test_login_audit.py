"""Whoever tries to log in with a wrong password is named in the audit log, on whatever front: who, from where, and why not."""

from __future__ import annotations

import asyncio
import base64
import http.client
import re

import pika
import pika.exceptions
import pytest
import rstream

import leveret
from leveret import errors
from tests.running_node import RunningNode, running_node

WRONG = "not the password"


def by_amqp(node: RunningNode) -> None:
    host, port = node.amqp
    wrong = pika.PlainCredentials("guest", WRONG)
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(pika.ConnectionParameters(host, port, credentials=wrong))


def by_http(node: RunningNode) -> None:
    connection = http.client.HTTPConnection(*node.http, timeout=30)
    plain = base64.b64encode(f"guest:{WRONG}".encode()).decode()
    connection.request("GET", "/api/overview", headers={"Authorization": f"Basic {plain}"})
    assert connection.getresponse().status == http.client.UNAUTHORIZED
    connection.close()


def by_grpc(node: RunningNode) -> None:
    async def log_in() -> None:
        async with leveret.connect("{}:{}".format(*node.grpc), user="guest", password=WRONG) as one:
            await one.topology.queues()

    with pytest.raises(errors.Unauthenticated):
        asyncio.run(log_in())


def by_stream(node: RunningNode) -> None:
    host, port = node.addresses["stream"]

    async def log_in() -> None:
        async with rstream.Producer(host, port, username="guest", password=WRONG):
            pass

    with pytest.raises(rstream.exceptions.AuthenticationFailure):
        asyncio.run(log_in())


FRONTS = {"AMQP": by_amqp, "HTTP": by_http, "gRPC": by_grpc, "stream": by_stream}


def test_a_wrong_password_is_one_line_of_the_audit_log_on_each_front() -> None:
    with running_node() as node:
        for log_in in FRONTS.values():
            log_in(node)
        lines = [line for line in node.log.read_text().splitlines() if " leveret.audit: " in line]
    failed = [line.partition(" leveret.audit: ")[2] for line in lines if "wrong user or password" in line]
    assert len(failed) == len(FRONTS), failed
    for line, front in zip(failed, FRONTS, strict=True):
        assert re.search(r"user 'guest'.* 127\.0\.0\.1:\d+", line) and front in line, line
