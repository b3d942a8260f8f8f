"""A Prometheus of this machine's distribution, as a process that scrapes what it is given."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.ports import free_ports

READY_WITHIN_S = 30.0
AGAIN_S = 0.2
ANSWER_S_MAX = 10.0


def program(directory: Path) -> str:
    """The installed one, or that of Debian's package, which is fetched and not installed."""
    installed = shutil.which("prometheus")
    if installed is not None:
        return installed
    subprocess.run(["apt-get", "download", "prometheus"], cwd=directory, check=True, capture_output=True)
    (package,) = directory.glob("prometheus_*.deb")
    subprocess.run(["dpkg-deb", "-x", str(package), str(directory / "prometheus")], check=True)
    return str(directory / "prometheus" / "usr" / "bin" / "prometheus")


class Prometheus:
    def __init__(self, address: str) -> None:
        self._url = f"http://{address}"

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=ANSWER_S_MAX) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def ask(self, query: str) -> list[dict[str, Any]]:
        """Series with their last values."""
        asked = urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(f"{self._url}/api/v1/query?{asked}", timeout=ANSWER_S_MAX) as response:
            found: list[dict[str, Any]] = json.loads(response.read())["data"]["result"]
        return found


@contextlib.contextmanager
def running_prometheus(directory: Path, jobs: Mapping[str, str], targets: Sequence[str]) -> Iterator[Prometheus]:
    """`jobs`: by name the path that is scraped, of each target, every second."""
    configured = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [
            {"job_name": job, "metrics_path": path, "static_configs": [{"targets": list(targets)}]}
            for job, path in jobs.items()
        ],
    }
    config = directory / "prometheus.yml"
    config.write_text(json.dumps(configured))  # JSON is YAML
    address = f"127.0.0.1:{free_ports(1)[0]}"
    command = [program(directory), f"--config.file={config}", f"--storage.tsdb.path={directory / 'tsdb'}"]
    with (directory / "prometheus.log").open("w") as log:
        process = subprocess.Popen([*command, f"--web.listen-address={address}"], stderr=log)
    try:
        prometheus = Prometheus(address)
        deadline = time.monotonic() + READY_WITHIN_S
        while not prometheus.is_ready():
            assert process.poll() is None and time.monotonic() < deadline, (directory / "prometheus.log").read_text()
            time.sleep(AGAIN_S)
        yield prometheus
    finally:
        process.terminate()
        process.wait()
