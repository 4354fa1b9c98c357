"""The entries of one rollout, as a coordinator would commit them: stopped in its second group."""

from __future__ import annotations

from fleetledger.coordinator.core.state import State, read_entry
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.topics.models.entries import DeviceModelStatus
from fleetledger.coordinator.topics.rollouts.entries import (
    GateFinding,
    GroupOpened,
    RolloutMeasured,
    RolloutPlanned,
    RolloutRolledBack,
    RolloutUnreached,
)
from fleetledger.coordinator.topics.rollouts.plan import RolloutPlan
from fleetledger.coordinator.topics.rollouts.state import Rollout
from fleetledger.schemas.rollouts import WHOLE, Mode, place_of
from fleetledger.schemas.values import DeviceId, Digest
from fleetledger.simulator.engines.recorder import NANOSECONDS

SALT = "wave"
NUMBER, CANDIDATE, FORMER = 3, 8, 7
FLEET = tuple(
    sorted((DeviceId(f"device-{n}") for n in range(10)), key=lambda name: place_of(SALT, name))
)
"""In the order in which groups take them."""
BEGAN = 1000 * NANOSECONDS
REASON = "Class 4 is lost on 3 devices."


def planned(number: int = NUMBER) -> RolloutPlanned:
    return RolloutPlanned(
        rollout=number, version=CANDIDATE, former=FORMER, salt=SALT, plan=RolloutPlan()
    )


def opened(group: int, mode: Mode, devices: int) -> GroupOpened:
    below = place_of(SALT, FLEET[devices]) if devices < len(FLEET) else WHOLE
    return GroupOpened(rollout=NUMBER, group=group, mode=mode, below=below)


def runs(version: int, state: str = "active") -> DeviceModelStatus:
    manifest = Digest.of(b"%d" % version)
    status = {"version": version, "manifest": manifest, "state": state}
    return DeviceModelStatus.model_validate({"status": status})


def lost() -> RolloutMeasured:
    found = GateFinding.model_validate(
        {
            "gate": "no_class_lost",
            "outcome": "fail",
            "value": 9.5,
            "limit": 7.6,
            "counts": (18, 0),
            "of_class": "4",
            "text": REASON,
        }
    )
    return RolloutMeasured(
        rollout=NUMBER,
        group=2,
        mode="run",
        outcome="fail",
        members=4,
        gates=(found,),
        entries=(5, 6, 7),
        reason=REASON,
    )


def passed() -> RolloutMeasured:
    return RolloutMeasured(
        rollout=NUMBER, group=1, mode="run", outcome="pass", members=1, gates=(), entries=(3,)
    )


def stopped() -> list[Entry]:
    """Two devices have run the candidate when the second group of four loses a class."""
    a, b, away = FLEET[0], FLEET[1], FLEET[2]
    told = [
        (0, planned(), None),
        (0, opened(1, "run", 1), None),
        (10, runs(CANDIDATE), a),
        (20, passed(), None),
        (30, opened(2, "run", 4), None),
        (35, runs(CANDIDATE), b),
        (36, runs(CANDIDATE, "failed"), FLEET[3]),
        (40, RolloutUnreached(rollout=NUMBER, group=2, devices=(away,)), None),
        (50, lost(), None),
        (50, RolloutRolledBack(rollout=NUMBER, to=FORMER, reason=REASON), None),
        (55, runs(FORMER), a),
        (60, runs(FORMER), b),
    ]
    return [
        Entry(
            number,
            BEGAN + seconds * NANOSECONDS,
            body.kind,
            "coordinator" if device is None else device,
            device,
            body.model_dump(mode="json"),
        )
        for number, (seconds, body, device) in enumerate(told)
    ]


def rollout() -> Rollout:
    """Return the state of it."""
    state = State()
    for entry in stopped():
        state.apply(read_entry(entry.kind, entry.body), entry.device, entry.time_ns)
    return state.rollouts.by_number[NUMBER]
