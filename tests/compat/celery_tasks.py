"""The Celery application of celery_check: its settings and tasks, imported by the worker and by the client.

It runs in the virtual environment of the check, so it imports Celery and nothing of this project.
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from kombu import Queue

app = Celery("compat", broker=os.environ["COMPAT_AMQP_URL"], backend="rpc://")
app.conf.update(
    # It goes by itself when nobody uses it: deleted by hand, it would end the worker's consumer in the midst of things.
    task_queues=[
        Queue(
            os.environ["COMPAT_QUEUE"],
            queue_arguments={"x-expires": 60_000, "x-queue-type": os.environ.get("COMPAT_QUEUE_TYPE", "classic")},
        )
    ],
    # Otherwise it asks for no limit of the channel where there is a quorum queue, for RabbitMQ's have none.
    worker_detect_quorum_queues=False,
    task_default_queue=os.environ["COMPAT_QUEUE"],
    task_acks_late=True,
    worker_prefetch_multiplier=int(os.environ.get("COMPAT_PREFETCH", "4")),
    broker_connection_retry_on_startup=True,
    broker_transport_options={"confirm_publish": True},
)


@app.task
def add(left: int, right: int) -> int:
    return left + right


@app.task(bind=True, max_retries=3)
def succeed_at(self: Any, attempt: int) -> int:
    """Fails until it is run for the `attempt`-th time, and answers with how often it was retried."""
    if self.request.retries + 1 < attempt:
        raise self.retry(countdown=0.1)
    return int(self.request.retries)


@app.task
def fail(text: str) -> None:
    raise ValueError(text)
