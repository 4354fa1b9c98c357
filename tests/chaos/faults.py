"""What goes wrong in a run, all of it drawn from its seed before the run begins.

The number of faults is bounded: messages are disturbed until `NetworkFaults.until`, and every
program has a list of crashes. After the last of them everything works, so a run that does not come
to its end has a fault of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random

FILE_EFFECTS = frozenset(
    ("open", "write", "fsync", "replace", "unlink", "symlink", "link", "mkdir", "rmdir")
)
"""Effects on files; a crash of the kind `file` counts all of them."""
_KINDS = {"": 500, "file": 210, "commit": 120, "publish": 150, "acknowledge": 60, "work": 30}
"""Kinds of crash, and the crash points of that kind that a program passes in an undisturbed run of
the small fleets, roughly; '' counts every kind."""
_WEIGHTS = (4, 3, 3, 1, 1, 2)


@dataclass(frozen=True)
class Crash:
    """A program ends at the crash point after `after` ones of `kind`, counted from its start."""

    kind: str
    after: int
    power_cut: bool
    """The power goes, and takes what was not made durable; else the program alone is killed."""
    down_seconds: float
    """Until it is started again."""
    loses_disk: bool = False
    """A device comes back with nothing but its pictures: it was installed anew."""


@dataclass(frozen=True)
class NetworkFaults:
    """How messages fare until a moment of the fleet's clock; afterwards, all is well."""

    until: float
    loss: float
    """Probability that a message, of either QoS, vanishes on its way to one receiver."""
    duplicate: float
    late: float
    """Probability that a message is late by up to `late_seconds`; others pass it."""
    late_seconds: float


@dataclass(frozen=True)
class Troubles:
    """Everything that goes wrong in a run."""

    seed: int
    network_faults: NetworkFaults
    crashes: Mapping[str, tuple[Crash, ...]]
    """Of every program, in their order."""
    cuts: tuple[tuple[float, str], ...]
    """When the broker loses a program's connections, without a goodbye, so that its will speaks."""
    broker_restarts: tuple[float, ...]
    """When the broker dies and comes back without sessions and retained messages."""
    leaps: tuple[tuple[float, str, float], ...] = ()
    """When a program's calendar leaps, and by how many seconds; it stays so."""
    hurry: float | None = None
    """Seconds after which the operator opens the next stage, learned or not; None: patiently."""


CALM = Troubles(0, NetworkFaults(0.0, 0.0, 0.0, 0.0, 0.0), {}, (), ())
"""No trouble at all."""


def dice(seed: str) -> Random:
    """Return a generator of repeatable troubles."""
    return Random(seed)


def draw_troubles(seed: int, programs: Iterable[str]) -> Troubles:
    """Draw the troubles of a run; the same for the same seed and names."""
    names = tuple(programs)
    random = dice(f"{seed}/weather")
    network_faults = _draw_network_faults(random)
    # A fleet of a thousand does not see a thousand times as many cuts.
    cuts = sorted(
        (random.uniform(0, network_faults.until), random.choice(names))
        for _ in range(random.randint(0, 6))
    )
    restarts = sorted(
        random.uniform(0, network_faults.until) for _ in range(random.choice((0, 0, 1, 1, 2)))
    )
    crashes = {name: _draw_crashes(dice(f"{seed}/crashes/{name}")) for name in names}
    hurry = random.choice((None, _log_uniform(random, 1, 120)))
    leaps = _draw_leaps(dice(f"{seed}/leaps"), names, network_faults.until)
    return Troubles(seed, network_faults, crashes, tuple(cuts), tuple(restarts), leaps, hurry)


def _draw_leaps(
    random: Random, names: tuple[str, ...], until: float
) -> tuple[tuple[float, str, float], ...]:
    """Draw which calendars are set forward or back, by a second up to a month."""
    return tuple(
        (
            random.uniform(0, until),
            random.choice(names),
            random.choice((-1, 1)) * _log_uniform(random, 1, 30 * 86400),
        )
        for _ in range(random.choice((0, 0, 1, 2, 4)))
    )


def _draw_network_faults(random: Random) -> NetworkFaults:
    return NetworkFaults(
        until=_log_uniform(random, 20, 900),
        loss=random.choice((0.0, 0.02, 0.1, 0.3)),
        duplicate=random.choice((0.0, 0.05, 0.3)),
        late=random.choice((0.0, 0.05, 0.3)),
        late_seconds=_log_uniform(random, 1, 240),
    )


def _draw_crashes(random: Random) -> tuple[Crash, ...]:
    return tuple(_draw_crash(random) for _ in range(random.choice((0, 1, 1, 2, 3, 5))))


def _draw_crash(random: Random) -> Crash:
    (kind,) = random.choices(tuple(_KINDS), _WEIGHTS)
    # Half of them early, so that recoveries are hit as well, and half anywhere.
    draw = random.choice((_log_uniform, Random.uniform))
    return Crash(
        kind=kind,
        after=int(draw(random, 1, _KINDS[kind])) - 1,
        power_cut=random.random() < 0.6,
        down_seconds=_log_uniform(random, 0.05, 300),
        loses_disk=random.random() < 0.1,
    )


def _log_uniform(random: Random, low: float, high: float) -> float:
    return math.exp(random.uniform(math.log(low), math.log(high)))
