"""Connects gateways and nodes to the broker through a Celery application with one quorum queue.

Messages are delivered at least once. If a message is delivered twice, its attempt is claimed only once.
Exchanges, queues and accounts are defined by the broker's configuration (deploy/rabbitmq), not by this
code, and neither account can change them.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from celery import Celery
from kombu import Exchange, Queue

TASK = "assayd.run"
EXCHANGE = "assayd"


def create_celery(url: str, *, queue: str, ca_file: Path | None = None) -> Celery:
    """Return the Celery application of gateways and nodes without connecting to the broker."""
    app = Celery("assayd", broker=url, set_as_current=False)
    exchange = Exchange(EXCHANGE, type="direct", durable=True, no_declare=True)
    quorum = {"x-queue-type": "quorum"}  # enables Celery's per-consumer limit; nothing else is allowed
    app.conf.update(
        task_queues=[
            Queue(queue, exchange, routing_key=queue, no_declare=True, queue_arguments=quorum),
        ],
        task_default_queue=queue,
        task_default_exchange=EXCHANGE,
        task_default_routing_key=queue,
        task_create_missing_queues=False,
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        result_backend=None,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_send_sent_event=False,
        worker_send_task_events=False,
        worker_enable_remote_control=False,
        worker_prefetch_multiplier=1,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_heartbeat=10,
        worker_hijack_root_logger=False,
    )
    if url.startswith("amqps:"):
        certificates = str(ca_file) if ca_file is not None else ssl.get_default_verify_paths().cafile
        app.conf.broker_use_ssl = {
            "cert_reqs": ssl.CERT_REQUIRED,
            "ca_certs": certificates,
            "server_hostname": None,  # taken from the URL: without it, no name would be verified
        }
    return app
