"""Two machines on one: network namespaces with a cable between them, and a node of Ray in each."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

HEAD, OTHER = "10.77.0.1", "10.77.0.2"
PORT = 6379
_NAMES = {HEAD: "fleetledger-head", OTHER: "fleetledger-other"}
_SETUP = (
    "ip link add fl-head type veth peer name fl-other",
    "ip link set fl-head netns fleetledger-head",
    "ip link set fl-other netns fleetledger-other",
    f"ip -n fleetledger-head addr add {HEAD}/24 dev fl-head",
    f"ip -n fleetledger-other addr add {OTHER}/24 dev fl-other",
    "ip -n fleetledger-head link set lo up",
    "ip -n fleetledger-other link set lo up",
    "ip -n fleetledger-head link set fl-head up",
    "ip -n fleetledger-other link set fl-other up",
)


def can_be_made() -> bool:
    """Whether this user may make namespaces here."""
    return os.geteuid() == 0 and shutil.which("ip") is not None


def on(address: str) -> list[str]:
    """Return what stands before a command that is to run on one of the machines."""
    return ["ip", "netns", "exec", _NAMES[address]]


@contextmanager
def two_nodes(folder: Path) -> Iterator[Mapping[str, str]]:
    """Start a node of Ray with one processor on each; yield the environment of its programs."""
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    environment = {**os.environ, **token, "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    ray = str(Path(sys.executable).with_name("ray"))
    started = {
        HEAD: ["--head", "--port", str(PORT), "--include-dashboard", "false"],
        OTHER: ["--address", f"{HEAD}:{PORT}"],
    }
    try:
        for name in _NAMES.values():
            _call(["ip", "netns", "add", name])
        for line in _SETUP:
            _call(line.split())
        for address, options in started.items():
            place = ["--node-ip-address", address, "--num-cpus", "1"]
            files = ["--temp-dir", str(folder / _NAMES[address])]
            _call([*on(address), ray, "start", *options, *place, *files], environment)
        yield environment
    finally:
        for address in started:
            command = [*on(address), ray, "stop", "--force"]
            subprocess.run(command, env=environment, capture_output=True, check=False)
        for name in _NAMES.values():
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _call(command: list[str], environment: Mapping[str, str] | None = None) -> None:
    """Run a command; raise `RuntimeError` with what it says where it fails."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr or done.stdout}")
