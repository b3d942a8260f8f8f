"""deploy/kubernetes/leveret.yaml, seen without a cluster: that its parts fit each other, the image and the configuration."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from front.web.security.access import Right
from leveret.ctl.__main__ import app
from node.config import load
from tests.unit.front.web.route_rights import PATHS

DEPLOY = Path(__file__).parents[2] / "deploy"
TEXT = (DEPLOY / "kubernetes" / "leveret.yaml").read_text()
DOCUMENTS: list[dict[str, Any]] = list(yaml.safe_load_all(TEXT))
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
LABELS = {"app.kubernetes.io/name": "leveret"}


def one(kind: str, name: str = "leveret") -> dict[str, Any]:
    (found,) = [document for document in DOCUMENTS if (document["kind"], document["metadata"]["name"]) == (kind, name)]
    return found


@pytest.fixture
def pod() -> dict[str, Any]:
    template = one("StatefulSet")["spec"]["template"]
    assert template["metadata"]["labels"] == LABELS
    return dict(template["spec"])


@pytest.fixture
def container(pod: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod["containers"]
    return dict(container)


@pytest.fixture
def configuration() -> dict[str, Any]:
    return tomllib.loads(one("ConfigMap")["data"]["leveret.toml"])


def selectors(value: Any) -> Iterator[dict[str, str]]:
    """Of everything that chooses pods."""
    if isinstance(value, list):
        for part in value:
            yield from selectors(part)
    elif isinstance(value, dict):
        for name, part in value.items():
            if name == "matchLabels" or (name == "selector" and "matchLabels" not in part):
                yield part
            else:
                yield from selectors(part)


def test_all_that_belongs_to_nodes_is_there_and_chooses_them() -> None:
    kinds = [(document["kind"], document["metadata"]["name"]) for document in DOCUMENTS]
    assert kinds == [
        ("ServiceAccount", "leveret"),
        ("ConfigMap", "leveret"),
        ("Service", "leveret-nodes"),
        ("Service", "leveret"),
        ("PodDisruptionBudget", "leveret"),
        ("NetworkPolicy", "leveret"),
        ("StatefulSet", "leveret"),
    ]
    chosen = list(selectors(DOCUMENTS))
    assert len(chosen) == 8 and all(labels == LABELS for labels in chosen), chosen
    assert all(document["metadata"]["labels"] == LABELS for document in DOCUMENTS)


def test_the_configuration_is_one_that_a_node_takes(
    tmp_path: Path, configuration: dict[str, Any], container: dict[str, Any]
) -> None:
    path = tmp_path / "leveret.toml"
    path.write_text(one("ConfigMap")["data"]["leveret.toml"])
    config = load(path)
    replicas, service = one("StatefulSet")["spec"]["replicas"], one("StatefulSet")["spec"]["serviceName"]
    assert list(config.cluster.peers) == [f"leveret-{number}.{service}:5681" for number in range(replicas)]
    assert "--advertise=$(POD_NAME).leveret-nodes:5681" in container["args"]
    assert "--config=/etc/leveret/leveret.toml" in container["args"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts["data"] == config.node.data_dir
    assert configuration["cluster"]["secret_file"].startswith(mounts["secret"] + "/")


def test_ports_are_those_of_the_image_the_services_and_the_configuration(
    container: dict[str, Any], configuration: dict[str, Any]
) -> None:
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    exposed = re.search(r"^EXPOSE (.+)$", DOCKERFILE, re.MULTILINE)
    assert exposed is not None and sorted(ports.values()) == sorted(map(int, exposed[1].split()))
    listen = {
        name: addresses if name == "peer" else addresses[0] for name, addresses in configuration["listen"].items()
    }
    assert {name: int(address.rpartition(":")[2]) for name, address in listen.items()} == ports
    served = {
        port["name"]: port["port"]
        for name in ("leveret", "leveret-nodes")
        for port in one("Service", name)["spec"]["ports"]
    }
    assert served == ports
    clients, nodes = one("NetworkPolicy")["spec"]["ingress"]
    assert {port["port"] for port in clients["ports"]} == set(ports.values()) - {ports["peer"]}
    assert ([port["port"] for port in nodes["ports"]], "from" in nodes, "from" in clients) == (
        [ports["peer"]],
        True,
        False,
    )


def test_nodes_find_each_other_before_they_are_ready_and_start_together() -> None:
    spec = one("Service", "leveret-nodes")["spec"]
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)
    assert one("StatefulSet")["spec"]["podManagementPolicy"] == "Parallel"


def test_a_majority_stays_while_machines_are_emptied() -> None:
    replicas = one("StatefulSet")["spec"]["replicas"]
    assert replicas % 2 == 1 and replicas - one("PodDisruptionBudget")["spec"]["maxUnavailable"] > replicas / 2


def test_probes_ask_what_nodes_answer_without_a_login(container: dict[str, Any]) -> None:
    ports = {port["name"] for port in container["ports"]}
    ready = container["readinessProbe"]["httpGet"]
    assert f"GET {ready['path']}" in PATHS[Right.NONE] and ready["port"] in ports
    assert container["livenessProbe"]["tcpSocket"]["port"] == "peer", "a node that waits for others must not be ended"


def test_a_node_is_drained_before_it_is_told_to_end_and_has_time_for_it(
    pod: dict[str, Any], container: dict[str, Any]
) -> None:
    shell, option, script = container["lifecycle"]["preStop"]["exec"]["command"]
    assert (shell, option) == ("sh", "-c")
    drain, pause = script.split(" || true; ")
    words = shlex.split(drain)
    assert words[0] == "leveretctl" and words[-2:] == ["node", "drain"]
    groups = {group.name: group.typer_instance for group in app.registered_groups}
    assert "drain" in {(command.name or command.callback.__name__) for command in groups["node"].registered_commands}  # type: ignore[union-attr]
    timeout_s = float(words[words.index("--timeout") + 1])
    assert timeout_s + float(pause.removeprefix("sleep ")) + 60 <= pod["terminationGracePeriodSeconds"]


def test_nodes_run_as_the_user_of_the_image_with_nothing_that_they_do_not_need(
    pod: dict[str, Any], container: dict[str, Any]
) -> None:
    user = re.search(r"--uid (\d+)", DOCKERFILE)
    assert user is not None
    security = pod["securityContext"]
    assert {security[name] for name in ("runAsUser", "runAsGroup", "fsGroup")} == {int(user[1])}
    assert (security["runAsNonRoot"], security["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False


def test_every_volume_is_mounted_and_data_outlives_the_set(pod: dict[str, Any], container: dict[str, Any]) -> None:
    spec = one("StatefulSet")["spec"]
    volumes = {volume["name"] for volume in pod["volumes"]} | {
        claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]
    }
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}


def test_no_two_nodes_share_a_machine(pod: dict[str, Any]) -> None:
    (rule,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["topologyKey"] == "kubernetes.io/hostname"
