"""Measure a model's way to devices over links of 16 Mbit/s with delay, jitter and loss.

Each device has a link and a network namespace of its own, so root is needed; without it the command
says so and measures nothing. All fetch at once: by blocks, by HTTP, and, with `--before`, by
the blocks of another commit that is checked out there. Ways take turns.

    python -m benchmarks.speed.poor_links.run [--before FOLDER] [--rounds 3] [--devices 2]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.speed.poor_links import link
from benchmarks.speed.poor_links.sending import PORT
from fleetledger.transport.brokers import find_mosquitto

RESULTS = RESULTS_FOLDER / "poor_links.json"
HERE = Path(__file__).resolve().parents[3]
_SENDING = Path(__file__).with_name("sending.py")
NOT_ALLOWED = "network namespaces and TUN devices need root, `ip` and /dev/net/tun: not measured"


class Ends:
    """The two sides of a run, each in its namespaces, on the code of some folder."""

    def __init__(self, code: Path, namespaces: Sequence[str], folder: Path) -> None:
        self._code, self._namespaces, self._folder = code, namespaces, folder

    def seconds(self, size: int, *, http: bool) -> float:
        """Return how long it took until every device had the model."""
        server, *devices = self._namespaces
        names = [f"device-{number}" for number in range(len(devices))]
        with ExitStack() as stack:
            sender = stack.enter_context(self._started(server, str(_SENDING)))
            told = {"bytes": size, "http": http, "devices": names, "mosquitto": find_mosquitto()}
            tell(sender, told)
            offered = hear(sender)
            receivers = []
            for number, (name, device) in enumerate(zip(names, devices, strict=True)):
                module = "benchmarks.speed.time_to_model.receiving"
                made = stack.enter_context(self._started(device, "-m", module))
                host, folder = link.address(number, 1), str(self._folder)
                users = {"users": {name: ["user", ""]}, "folder": folder, "blocks": 0}
                tell(made, users | {"kind": "blocks", "host": host, "port": PORT})
                receivers.append(made)
            for one in receivers:
                hear(one)
            said = offered if self._code == HERE else offered["offer"]
            began = time.perf_counter()
            for one in receivers:
                tell(one, said)
            for one in receivers:
                hear(one)
            took = time.perf_counter() - began
        for name in names:
            (self._folder / name).unlink()
        return took

    @contextmanager
    def _started(self, namespace: str, *words: str) -> Iterator[subprocess.Popen[str]]:
        command = ["ip", "netns", "exec", namespace, sys.executable, *words]
        path = {"PYTHONPATH": f"{self._code / 'src'}:{self._code}", "PYTHONDONTWRITEBYTECODE": "1"}
        with child(command, os.environ | path, self._code) as made:
            yield made


@contextmanager
def child(
    command: Sequence[str], env: dict[str, str] | None = None, folder: Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Yield a process with a standard input, whose end ends it."""
    pipe = subprocess.PIPE
    made = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env, cwd=folder)
    try:
        yield made
    finally:
        made.communicate(timeout=30)


def tell(process: subprocess.Popen[str], what: object) -> None:
    """Give a process a line of JSON."""
    assert process.stdin is not None
    process.stdin.write(json.dumps(what) + "\n")
    process.stdin.flush()


def hear(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the next line of JSON that a process says."""
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


@contextmanager
def links(devices: int) -> Iterator[tuple[str, ...]]:
    """Yield namespaces that are joined: the server's, then the devices'."""
    names = tuple(f"fleetledger-{os.getpid()}-{number}" for number in range(devices + 1))
    with ExitStack() as stack:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
            stack.callback(subprocess.run, ["ip", "netns", "del", name], check=True)
            subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        module = [sys.executable, "-m", "benchmarks.speed.poor_links.link"]
        carrier = stack.enter_context(child([*module, *names]))
        assert carrier.stdout is not None
        assert carrier.stdout.readline() == "ready\n"
        yield names


def allowed() -> bool:
    """Whether namespaces can be made here."""
    name = f"fleetledger-{os.getpid()}"
    try:
        done = subprocess.run(["ip", "netns", "add", name], check=False, capture_output=True)
        if done.returncode == 0:
            subprocess.run(["ip", "netns", "del", name], check=True)
        return done.returncode == 0 and os.access("/dev/net/tun", os.R_OK | os.W_OK)
    except OSError:
        return False


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Run all ways by turns; return what is written down."""
    ways: dict[str, tuple[Path, bool]] = {"blocks": (HERE, False), "http": (HERE, True)}
    if given.before is not None:
        ways["blocks_before"] = (given.before.resolve(), False)
    size = round(given.megabytes * 1_000_000)
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as scratch, links(given.devices) as names:
        for number in range(given.rounds):
            for way in sorted(ways, reverse=bool(number % 2)):
                code, http = ways[way]
                took = Ends(code, names, Path(scratch)).seconds(size, http=http)
                seconds[way].append(took)
                print(f"{way}: {took:.2f} s", file=sys.stderr, flush=True)
    return {
        "command": "python -m benchmarks.speed.poor_links.run --before FOLDER",
        "machine": describe_machine("paho-mqtt"),
        "devices": given.devices,
        "model_bytes": size,
        "delay_ms": 2_000 * link.DELAY_SECONDS,
        "jitter_ms": 1_000 * link.JITTER_SECONDS,
        "loss": link.LOSS,
        "down_megabit_per_second": 8e-6 * link.DOWN_BYTES_PER_SECOND,
        "seconds": {
            way: {
                "median": round(statistics.median(found), 2),
                "min": round(min(found), 2),
                "max": round(max(found), 2),
            }
            for way, found in seconds.items()
        },
    }


def main() -> None:
    """Run all, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="checkout of the commit to compare with")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    if not allowed():
        print(NOT_ALLOWED)
        return
    text = json.dumps(measure(given), indent=2)
    given.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
