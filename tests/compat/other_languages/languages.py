"""The clients of other languages that a Debian machine installs by package name, and the program that tries each."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
JAVA_CLASSES = ("/usr/share/java/amqp-client.jar", "/usr/share/java/slf4j-api.jar", "/usr/share/java/slf4j-nop.jar")
GO_SOURCES = "/usr/share/gocode"


@dataclass(frozen=True)
class Language:
    """One client. The program is called with a host and a port behind `command`, and says on stderr what did not hold."""

    name: str
    client: str
    command: tuple[str, ...]
    probe: tuple[str, ...]  # exits with 0 where the client is installed
    install: str
    environment: Mapping[str, str] = field(default_factory=dict)

    def missing(self, environment: Mapping[str, str]) -> bool:
        if shutil.which(self.probe[0], path=environment.get("PATH")) is None:
            return True
        probed = subprocess.run(self.probe, env={**environment, **self.environment}, capture_output=True, check=False)
        return probed.returncode != 0


def program(name: str) -> str:
    return str(HERE / name)


LANGUAGES = (
    Language(
        "c",
        "rabbitmq-c (amqp-tools)",
        command=("sh", program("check.sh")),
        probe=("amqp-publish", "--help"),
        install="apt-get install amqp-tools",
    ),
    Language(
        "go",
        "amqp091-go",
        command=("go", "run", program("check.go")),
        probe=("go", "list", "github.com/rabbitmq/amqp091-go"),
        install="apt-get install golang-go golang-github-rabbitmq-amqp091-go-dev",
        environment={"GO111MODULE": "off", "GOFLAGS": "", "GOPATH": GO_SOURCES},
    ),
    Language(
        "java",
        "amqp-client",
        command=("java", "-cp", ":".join(JAVA_CLASSES), program("Check.java")),
        probe=("javap", "-cp", ":".join(JAVA_CLASSES), "com.rabbitmq.client.ConnectionFactory", "org.slf4j.Logger"),
        install="apt-get install default-jdk-headless librabbitmq-client-java libslf4j-java",
    ),
    Language(
        "javascript",
        "amqplib",
        command=("node", program("check.js")),
        probe=("node", "-e", "require('amqplib')"),
        install="npm install --prefix DIR amqplib, then NODE_PATH=DIR/node_modules in the environment",
    ),
    Language(
        "perl",
        "AnyEvent::RabbitMQ",
        command=("perl", program("check.pl")),
        probe=("perl", "-MAnyEvent::RabbitMQ", "-e", "1"),
        install="apt-get install libanyevent-rabbitmq-perl",
    ),
    Language(
        "php",
        "php-amqplib",
        command=("php", program("check.php")),
        probe=("php", "-r", "require 'PhpAmqpLib/autoload.php';"),
        install="apt-get install php-cli php-amqplib",
    ),
    Language(
        "ruby",
        "Bunny",
        command=("ruby", program("check.rb")),
        probe=("ruby", "-e", "require 'bunny'"),
        install="apt-get install ruby ruby-bunny",
    ),
)
