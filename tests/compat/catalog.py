"""Which client suites are run, at which version, and how each finds its broker.

Everything is pinned: the source by its checksum, the packages beside it by version, so a result changes only when the
node changes. A pin is moved by hand, together with the recorded list in `expected/`.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Suite:
    name: str
    project: str
    """The name on PyPI, which is also how pip is asked for the source."""
    version: str
    sha256: str
    """Of the source archive; empty where it is not one fixed file (a tag archive is made anew by its host)."""
    requirements: tuple[str, ...]
    """What runs the suite, beside the project itself."""
    arguments: tuple[str, ...]
    """For pytest, seen from the root of the source. May use what `environment` may."""
    plugins: tuple[str, ...] = ("compat_report",)
    environment: dict[str, str] = field(default_factory=dict)
    """Values may use {amqp_host}, {amqp_port}, {amqps_port}, {http}, {stream_host} and {stream_port}."""
    leftovers: tuple[str, ...] = ()
    """Queues that a run leaves behind with messages that would fail the next run; removed before each."""
    redirected: bool = False
    """Whether customary ports of localhost are written into the tests, so that connections to them must be led to the node."""
    archive_url: str = ""
    """Where the source is when the sdist on PyPI carries no tests."""
    test_seconds_max: int = 60
    suite_seconds_max: int = 1200


_ASYNC_RUNNER = ("aiomisc==18.0.37", "aiomisc-pytest==2.0.0", "markdown-pytest==0.6.6", "pamqp==4.0.1", "yarl==1.25.1")

SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            name="pika",
            project="pika",
            version="1.4.4",
            sha256="",
            archive_url="https://github.com/pika/pika/archive/refs/tags/1.4.4.tar.gz",
            requirements=(
                "gevent==26.9.0",
                "pytest==8.4.2",
                "pytest-timeout==2.4.0",
                "tornado==6.6.1",
                "twisted==26.10.0",
            ),
            arguments=("tests/acceptance",),
            plugins=("compat_report", "compat_redirect"),
            redirected=True,
        ),
        Suite(
            name="aio-pika",
            project="aio-pika",
            version="10.2.1",
            sha256="e4f77afd9179a3cca5a904c3b0a1190256a36d9f90650db908b1b2245eb27487",
            requirements=(
                *_ASYNC_RUNNER,
                "aiormq==7.2.4",
                "pytest==9.2.0",
                "pytest-timeout==2.4.0",
                "shortuuid==1.0.13",
            ),
            arguments=("tests",),
            plugins=("compat_report", "compat_docker"),
        ),
        Suite(
            name="aiormq",
            project="aiormq",
            version="7.2.4",
            sha256="5fd20bb9583d73de85572198496b65cf028f27527c1733c9840d458e0b40e8fa",
            requirements=(*_ASYNC_RUNNER, "pytest==9.2.0", "pytest-timeout==2.4.0"),
            arguments=("tests",),
            plugins=("compat_report", "compat_docker"),
        ),
        Suite(
            name="py-amqp",
            project="amqp",
            version="5.4.2",
            sha256="9362660c4a31150cf18e78cae2ce8aa1e929fc6c6739e69f6dd5dbea9c3edc82",
            requirements=("pytest==8.0.0", "pytest-rerunfailures==16.1", "pytest-timeout==2.4.0", "vine==5.1.0"),
            # Its certificates are not in the sdist, so nothing over TLS can pass; each would be tried six times.
            arguments=("t/integration/test_rmq.py", "-k", "not tls"),
            environment={
                "RABBITMQ_HOST": "{amqp_host}",
                "RABBITMQ_5672_TCP": "{amqp_port}",
                "RABBITMQ_5671_TCP": "{amqps_port}",
            },
        ),
        Suite(
            name="kombu",
            project="kombu",
            version="5.6.2",
            sha256="8060497058066c6f5aed7c26d7cd0d3b574990b09de842a8c5aaed0b92cc5a55",
            requirements=("amqp==5.4.2", "pytest==8.4.2", "pytest-rerunfailures==16.7", "pytest-timeout==2.4.0"),
            arguments=("t/integration/test_py_amqp.py",),
            environment={"RABBITMQ_HOST": "{amqp_host}", "RABBITMQ_5672_TCP": "{amqp_port}"},
            leftovers=("priority_requeue_test",),
        ),
        Suite(
            name="amqpstorm",
            project="amqpstorm",
            version="3.1.4",
            sha256="8c4c81430b3e3f06c88474a8ed883b48a62068f14490e339d6e0fc3329f030d3",
            requirements=("pamqp==4.0.1", "pytest==8.4.2", "pytest-timeout==2.4.0", "requests==2.34.2"),
            arguments=(
                "amqpstorm/tests/functional",
                "--ignore=amqpstorm/tests/functional/ssl",
            ),
            environment={
                "AMQP_HOST": "{amqp_host}",
                "AMQP_USERNAME": "guest",
                "AMQP_PASSWORD": "guest",
                "AMQP_URI": "amqp://guest:guest@{amqp_host}:{amqp_port}/%2F",
                "AMQP_HTTP_URL": "http://{http}",
            },
            redirected=True,
        ),
        Suite(
            name="rstream",
            project="rstream",
            version="1.0.1",
            sha256="",
            archive_url="https://github.com/rabbitmq-community/rstream/archive/refs/tags/v1.0.1.tar.gz",
            requirements=("pytest==8.4.2", "pytest-asyncio==1.2.0", "pytest-timeout==2.4.0", "requests==2.34.2"),
            arguments=("tests", "--rmq-host={stream_host}", "--rmq-port={stream_port}"),
            # Its own way to leave out what wants three nodes behind a balancer.
            environment={"GITHUB_ACTIONS": "true"},
            redirected=True,
            test_seconds_max=180,  # 256 consumers, each with a connection that takes its time to close
        ),
    )
}
