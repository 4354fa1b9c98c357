"""Measure envelopes per second of processor time, with signatures and without.

Two messages (a heartbeat, and a contribution with 3 KB attached), two steps, two sides in
alternating order:

    sealed     `Sender.seal` and `encode`, as an agent does for every message
    taken in   `decode` and `authenticate`, as the coordinator does: of an enrolled device the
               signature is checked and the number noted, of one without a key neither

    python -m benchmarks.speed.envelope_signatures.run [--rounds 15]
"""

from __future__ import annotations

import argparse
import json
import secrets
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from fleetledger.coordinator.core.inputs import DeviceMessage
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.program.authenticator import Authenticator
from fleetledger.coordinator.topics.devices.state import Device
from fleetledger.coordinator.topics.keys.state import DeviceKeys
from fleetledger.schemas.contributions import Contribution, PartKey
from fleetledger.schemas.enrolment import device_key_name
from fleetledger.schemas.envelope import Sender, decode, encode
from fleetledger.schemas.keys import SigningKey
from fleetledger.schemas.message import Message
from fleetledger.schemas.presence import Heartbeat
from fleetledger.schemas.topics import FleetTopics, UpLeaf
from fleetledger.schemas.values import BootId, ClassName, DeviceId, Digest, FleetId

RESULTS = RESULTS_FOLDER / "envelope_signatures.json"
FLEET, DEVICE = FleetId("rate"), DeviceId("device-7")
TOPICS = FleetTopics(FLEET)
KEY = SigningKey.fresh(device_key_name(FLEET, DEVICE))
BIRTH = Digest.of(b"the coordinator's birth")
ATTACHED = secrets.token_bytes(3000)
MESSAGES: dict[str, tuple[Message, bytes, UpLeaf]] = {
    "heartbeat": (
        Heartbeat(
            welcomed=True,
            assignment_action=17,
            outbox_length=1,
            waiting_images=12,
            resident_bytes=98_566_144,
            bytes_up=71_204,
            bytes_down=0,
        ),
        b"",
        "hb",
    ),
    "contribution": (
        Contribution(
            key=PartKey(stage=1, part=0),
            revision=0,
            payload_kind="statistics",
            method="stsa",
            lineage=Digest.of(b"lineage"),
            payload=Digest.of(ATTACHED),
            payload_bytes=len(ATTACHED),
            samples={ClassName(f"class-{index}"): 4 for index in range(5)},
        ),
        ATTACHED,
        "msg",
    ),
}


def seal(name: str, count: int, key: SigningKey | None) -> list[bytes]:
    """Return so many envelopes of one run."""
    body, attached, leaf = MESSAGES[name]
    sender = Sender(FLEET, DEVICE, BootId.fresh(), signer=key)
    topic = TOPICS.up(DEVICE, leaf)
    return [
        encode(sender.seal(body, sent_ms=number, attachment=attached, refers_to=BIRTH, topic=topic))
        for number in range(count)
    ]


def take_in(name: str, data: Sequence[bytes], key: SigningKey | None) -> None:
    """Let a fresh gate take envelopes in; all must pass."""
    state = State()
    state.devices.admitted[DEVICE] = Device(0)
    state.keys.by_device[DEVICE] = DeviceKeys(key=None if key is None else key.verify_key)
    authenticator = Authenticator(TOPICS, lambda: state, lambda _: None)
    authenticator.born(BIRTH)
    topic = TOPICS.up(DEVICE, MESSAGES[name][2])
    for item in data:
        assert isinstance(authenticator.authenticate(topic, decode(item)), DeviceMessage), (
            "it did not pass"
        )


def rate(count: int, act: Callable[[], object]) -> float:
    """Return how many of `count` things one second of processor time is enough for."""
    began = time.process_time()
    act()
    return count / (time.process_time() - began)


def one_round(count: int, number: int) -> dict[str, float]:
    """Return the rates of all; the order of the sides alternates."""
    sides = {"unsigned": None, "signed": KEY}
    rates: dict[str, float] = {}
    for name in MESSAGES:
        for side in sorted(sides, reverse=number % 2 == 0):
            key = sides[side]
            rates[f"{name}, sealed, {side}"] = rate(count, lambda: seal(name, count, key))  # noqa: B023 - called at once
            data = seal(name, count, key)
            rates[f"{name}, taken in, {side}"] = rate(count, lambda: take_in(name, data, key))  # noqa: B023 - as above
    return rates


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return median and range."""
    numbers = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: round(value) for name, value in numbers.items()}


def main() -> None:
    """Run the rounds, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", type=int, default=2000, help="envelopes per round and side")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    rounds = [one_round(arguments.count, number) for number in range(arguments.rounds)]
    command = f"python -m benchmarks.speed.envelope_signatures.run {' '.join(sys.argv[1:])}".strip()
    results = {
        "command": command,
        "machine": describe_machine("cryptography", "pydantic"),
        "plan": {"rounds": arguments.rounds, "count": arguments.count},
        "bytes": {
            f"{name}, {side}": len(seal(name, 1, key)[0])
            for name in MESSAGES
            for side, key in (("unsigned", None), ("signed", KEY))
        },
        "envelopes_per_processor_second": {
            what: spread([rates[what] for rates in rounds]) for what in rounds[0]
        },
    }
    text = json.dumps(results, indent=2)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
