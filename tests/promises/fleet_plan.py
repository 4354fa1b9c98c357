"""What is done to a real fleet, drawn from a seed before it starts: faults, images, stages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

BROKER, COORDINATOR = "broker", "coordinator"
DIGITS = 1797
CLASSES = 10
FIRST_CLASSES = 5
"""Opened at once; the others by the second stage, halfway."""

Kind = Literal["kill", "stop"]

_LEADERS_EVERY = 15.0
"""Seconds of the run for each fault of the broker, and of the coordinator."""
_AGENTS_EVERY = 20.0
_IMAGES_EVERY = 2.0
_BATCH = 12
_FIRST_IMAGES = 15
"""Images that lie on a device when it starts."""
_MOST_AWAY = 0.5
"""Share of a run that a program may be away or paused."""
_LONG = 0.1
"""Share of pauses that outlive every patience: of up to a minute."""


@dataclass(frozen=True)
class Fault:
    """A program is killed (SIGKILL) and away, or paused (SIGSTOP, SIGCONT), for some seconds."""

    at: float
    program: str
    kind: Kind
    seconds: float

    @property
    def end(self) -> float:
        """When the program is there again."""
        return self.at + self.seconds


@dataclass(frozen=True)
class Delivery:
    """Images, by their number in the data set, come to a device's folder."""

    at: float
    device: str
    images: tuple[int, ...]


@dataclass(frozen=True)
class FleetPlan:
    """Everything that will be done, in seconds from the fleet's start."""

    seed: int
    seconds: float
    devices: tuple[str, ...]
    faults: tuple[Fault, ...]
    deliveries: tuple[Delivery, ...]

    @property
    def second_stage(self) -> float:
        """When the second stage is opened."""
        return self.seconds / 2

    @property
    def over(self) -> float:
        """When the last fault ends, and the last images are there."""
        ends = [fault.end for fault in self.faults] + [item.at for item in self.deliveries]
        return max([self.second_stage, *ends])

    def images(self, device: str) -> int:
        """Count what is brought to a device."""
        return sum(len(item.images) for item in self.deliveries if item.device == device)

    def without_faults(self) -> FleetPlan:
        """Return the same images, all of them there from the start, and no fault."""
        at_once = tuple(Delivery(0.0, item.device, item.images) for item in self.deliveries)
        return FleetPlan(self.seed, 0.0, self.devices, (), at_once)


def draw_plan(seed: int, seconds: float, devices: Sequence[str]) -> FleetPlan:
    """Draw a run of so many seconds; the same for the same arguments."""
    faults = [
        fault
        for program in (BROKER, COORDINATOR, *devices)
        for fault in _faults(Random(f"{seed}/faults/{program}"), program, seconds)
    ]
    return FleetPlan(
        seed,
        seconds,
        tuple(devices),
        tuple(sorted(faults, key=lambda fault: fault.at)),
        tuple(_deliveries(Random(f"{seed}/images"), seconds, devices)),
    )


def _faults(random: Random, program: str, seconds: float) -> list[Fault]:
    """Draw as many kills as pauses of a program, at least one of each, that do not overlap."""
    every = _LEADERS_EVERY if program in (BROKER, COORDINATOR) else _AGENTS_EVERY
    pairs = max(1, round(seconds / every / 2))
    kinds: list[Kind] = ["kill", "stop"] * pairs
    random.shuffle(kinds)
    lengths = [_length(random, kind) for kind in kinds]
    # A short run cannot bear long ones: together they take half of it at most.
    share = min(1.0, _MOST_AWAY * seconds / sum(lengths))
    lengths = [share * length for length in lengths]
    left = seconds - sum(lengths)
    starts = sorted(random.uniform(0, left) for _ in kinds)
    return [
        Fault(start + sum(lengths[:number]), program, kind, length)
        for number, (start, kind, length) in enumerate(zip(starts, kinds, lengths, strict=True))
    ]


def _length(random: Random, kind: Kind) -> float:
    if kind == "kill":
        return _log_uniform(random, 0.1, 10)
    return _log_uniform(random, 0.5, 60 if random.random() < _LONG else 15)


def _deliveries(random: Random, seconds: float, devices: Sequence[str]) -> list[Delivery]:
    left = random.sample(range(DIGITS), DIGITS)
    found = [Delivery(0.0, device, _take(left, _FIRST_IMAGES)) for device in devices]
    now = 0.0
    while left and (now := now + random.expovariate(1 / _IMAGES_EVERY)) < seconds:
        images = _take(left, random.randint(1, _BATCH))
        found.append(Delivery(now, random.choice(devices), images))
    return found


def _take(left: list[int], number: int) -> tuple[int, ...]:
    taken = tuple(left[:number])
    del left[:number]
    return taken


def _log_uniform(random: Random, low: float, high: float) -> float:
    return math.exp(random.uniform(math.log(low), math.log(high)))
