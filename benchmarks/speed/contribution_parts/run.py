"""Measure the steps of one contribution in microseconds of processor time, beside another checkout.

Steps: the check of a payload by each method of statistics and of a round's answer, the same payload
made, a signature made and checked, an envelope sealed and taken in, its body read.

Every round starts a process for each checkout, in alternating order; each measures all steps in
turn. A fixed piece of work beside every step says how busy the machine was, and divides its time.

    python -m benchmarks.speed.contribution_parts.run [--before CHECKOUT] [--rounds 5]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine

RESULTS = RESULTS_FOLDER / "contribution_parts.json"
HERE = Path(__file__).parents[3]
BATCH_SECONDS = 0.02
BATCHES = 15
WIDTH, CLASSES, SAMPLES = 16, 5, 20
METHODS: dict[str, tuple[str, dict[str, object], int]] = {
    "stsa exact, 40 features": ("stsa", {"map_width": 40, "form": "exact"}, WIDTH),
    "stsa exact, 500 features": ("stsa", {"map_width": 500, "form": "exact"}, WIDTH),
    "stsa compact, 40 features": ("stsa", {"map_width": 40, "form": "compact"}, WIDTH),
    "stsa estimated, 40 features": ("stsa", {"map_width": 40, "form": "estimated"}, WIDTH),
    "fed3r, 40 features": ("fed3r", {}, 40),
    "fedncm, 40 features": ("fedncm", {}, 40),
    "fedcof, 40 features": ("fedcof", {}, 40),
    "pooled, 40 features": ("pooled", {}, 40),
}
Steps = dict[str, Callable[[], object]]


def statistics_steps() -> Steps:
    """Return checks of payloads, and how they are made, by method."""
    from fleetledger.methods.registry import statistics_coordinator, statistics_device

    random = np.random.default_rng(1)
    labels = [f"class-{index % CLASSES}" for index in range(SAMPLES)]
    steps: Steps = {}
    for name, (method, settings, width) in METHODS.items():
        side, device = statistics_coordinator(method), statistics_device(method)
        told = side.assign(settings, width)
        largest = getattr(told.settings, "largest", 127)
        features = random.integers(0, largest, (SAMPLES, told.columns), endpoint=True)
        given = features.astype(np.float32)
        made = [device.finish(told, given, labels).payload]
        for _ in range(7):  # like a fleet's: the numbers differ, the header mostly does not
            other = random.integers(0, largest, given.shape, endpoint=True).astype(np.float32)
            made.append(device.finish(told, other, labels).payload)
        steps[f"check: {name}"] = _in_turn(lambda one, s=side, t=told: s.check(t, one), made)
        steps[f"make: {name}"] = lambda d=device, t=told, g=given: d.finish(t, g, labels)
    return steps


def answer_steps() -> Steps:
    """Return checks of answers to a round of an averaging method, with 10,000 floats."""
    from fleetledger.methods.training.client_updates import UpdateFrame

    random = np.random.default_rng(2)
    sent = {f"{n}.weight": random.normal(size=(50, 50)).astype(np.float32) for n in "abcd"}
    moved = {name: value + np.float32(0.01) for name, value in sent.items()}
    steps: Steps = {}
    for form in ("int32", "int16"):
        frame = UpdateFrame(sent, form)  # type: ignore[arg-type]
        answer = frame.encode(moved)
        steps[f"check: answer of a round, {form}"] = lambda f=frame, a=answer: f.check(a)
        steps[f"make: answer of a round, {form}"] = lambda f=frame: f.encode(moved)
    return steps


def message_steps() -> Steps:
    """Return what signatures and envelopes cost: of a contribution of 3 KB, and a receipt."""
    from benchmarks.speed.envelope_signatures.run import BIRTH, DEVICE, FLEET, KEY, MESSAGES, TOPICS
    from fleetledger.schemas.contributions import Contribution, PartKey
    from fleetledger.schemas.envelope import COORDINATOR, Sender, decode, encode
    from fleetledger.schemas.keys import KeyName, SigningKey
    from fleetledger.schemas.receipts import Accepted, Receipt
    from fleetledger.schemas.values import BootId

    body, attached, _ = MESSAGES["contribution"]
    boot = BootId.fresh()
    device = Sender(FLEET, DEVICE, boot, signer=KEY)
    leader = Sender(FLEET, COORDINATOR, boot, signer=SigningKey.fresh(KeyName("rate")))
    topic, down = TOPICS.up(DEVICE, "msg"), TOPICS.down(DEVICE, "rcpt")
    signature, verify = KEY.sign("x", attached[:900]), KEY.verify_key

    def contribution() -> bytes:
        sealed = device.seal(body, sent_ms=1, attachment=attached, refers_to=BIRTH, topic=topic)
        return encode(sealed)

    def receipt() -> bytes:
        told = Receipt(
            about="contribution", key=PartKey(stage=1, part=99), answer=Accepted(ledger_index=123)
        )
        return encode(leader.seal(told, sent_ms=1, refers_to=BIRTH, topic=down))

    data = [contribution() for _ in range(8)]
    envelopes = [decode(one) for one in data]
    return {
        "signature made": lambda: KEY.sign("x", attached[:900]),
        "signature checked": lambda: verify.check(signature, "x", attached[:900]),
        "contribution sealed": contribution,
        "contribution decoded": _in_turn(decode, data),
        "contribution read": _in_turn(lambda one: one.read(Contribution), envelopes),
        "receipt made and sealed": receipt,
        "topic put together": lambda: TOPICS.down(DEVICE, "rcpt"),
    }


def _in_turn(act: Callable[[object], object], given: list) -> Callable[[], object]:  # type: ignore[type-arg]
    place = iter(range(sys.maxsize))
    return lambda: act(given[next(place) % len(given)])


def fixed_work() -> float:
    """Return the processor seconds of a piece of Python, JSON, SHA-256 and NumPy."""
    values, numbers = {"a": [1, 2, 3], "b": {"c": "text"}}, np.arange(4000, dtype=np.float32)
    began = time.thread_time()
    for _ in range(60):
        json.dumps(values, sort_keys=True)
        hashlib.sha256(bytes(4096)).digest()
        np.rint(numbers * np.float32(3))
    return time.thread_time() - began


def measure() -> dict[str, tuple[float, float]]:
    """Return of each step the microseconds, and the seconds of the fixed work beside it."""
    steps = statistics_steps() | answer_steps() | message_steps()
    found = {}
    for name, act in steps.items():
        act()
        began = time.thread_time()
        act()
        count = max(1, min(2000, int(BATCH_SECONDS / max(time.thread_time() - began, 1e-6))))
        times, beside = [], []
        for _ in range(BATCHES):
            beside.append(fixed_work())
            began = time.thread_time()
            for _ in range(count):
                act()
            times.append((time.thread_time() - began) / count * 1e6)
        found[name] = (statistics.median(times), statistics.median(beside))
    return found


def in_checkout(folder: Path) -> dict[str, tuple[float, float]]:
    """Measure in a process of its own, with the program of that checkout."""
    paths = os.pathsep.join((str(folder / "src"), str(HERE)))
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.speed.contribution_parts.run", "--once"]
    told = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, check=True)
    return {name: tuple(pair) for name, pair in json.loads(told.stdout).items()}


def main() -> None:
    """Run the rounds, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="checkout to stand beside")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        print(json.dumps(measure()))
        return
    sides = {"now": HERE} | ({"before": arguments.before.resolve()} if arguments.before else {})
    runs: dict[str, list[dict[str, tuple[float, float]]]] = {side: [] for side in sides}
    for number in range(arguments.rounds):
        for side in sorted(sides, reverse=number % 2 == 0):
            runs[side].append(in_checkout(sides[side]))
    quiet = min(pair[1] for side in runs.values() for run in side for pair in run.values())
    rows: dict[str, dict[str, float]] = {}
    for name in runs["now"][0]:
        medians = {
            side: statistics.median(run[name][0] * quiet / run[name][1] for run in found)
            for side, found in runs.items()
        }
        rows[name] = {side: round(value, 1) for side, value in medians.items()}
        print(f"{name:40}", *(f"{side} {value:9.1f} us" for side, value in medians.items()))
    given = f"--rounds {arguments.rounds}" + (" --before CHECKOUT" if arguments.before else "")
    results = {
        "command": f"python -m benchmarks.speed.contribution_parts.run {given}",
        "machine": describe_machine("cryptography", "numpy", "pydantic", "pynacl"),
        "microseconds": rows,
    }
    arguments.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
