"""Asynchronous rounds: a round closes with its last answer, whichever round that began from.

- A round takes so many answers. Each counts in the round that is open when it comes, in the order
  of the ledger, with its weights' age in versions. What comes while a mean is made counts in the
  next round.
- So many devices train at the same time. When one has answered, another is asked at once; of one
  device a single answer counts in a round, so it is asked again when the next round opens.
- An order stands until it is answered, until its weights are too old, or until the stage is over.
  A device that is away, or that trains for longer than a round may take, keeps its order and lets
  another one train meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from fleetledger.coordinator.core.rules import AsynchronousRules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.topics.rounds.entries import Buffering
from fleetledger.coordinator.topics.rounds.state import Round
from fleetledger.schemas.rounds import STALENESS_STEPS
from fleetledger.schemas.values import DeviceId


def buffering_of(rules: AsynchronousRules) -> Buffering:
    """Return how answers count under the settings."""
    ages = range(rules.max_staleness + 1)
    return Buffering(
        answers=rules.buffer,
        mixes=rules.combine == "mixing",
        rate=rules.server_rate,
        staleness_weights=tuple(max(1, round(STALENESS_STEPS * _weight(rules, t))) for t in ages),
    )


def _weight(rules: AsynchronousRules, age: int) -> float:
    match rules.staleness:
        case "constant":
            return 1.0
        case "polynomial":
            return float((1.0 + age) ** -rules.staleness_a)
        case "hinge":
            return 1.0 / (rules.staleness_a * max(0, age - rules.staleness_b) + 1.0)


class Ending(NamedTuple):
    """What the closing of an asynchronous round ends, and how old the weights in it are."""

    devices: tuple[DeviceId, ...]
    """Devices whose orders are over."""
    left_out: tuple[int, ...]
    """Answers that wait and count in no round."""
    staleness: dict[int, int]
    """Age in versions, by the entry of an answer that began from older weights."""


def ending_of(state: State, current: Round, over: Collection[DeviceId]) -> Ending:
    """Return what a round's closing ends; `over` are devices whose orders end in any case."""
    opened, rounds, terms = current.opened, state.rounds, current.opened.buffering
    assert terms is not None
    is_last = bool(current.answers) and opened.round_of_stage == opened.rounds_of_stage
    goes_on = opened.stage == state.stages.open and not is_last
    next_version = 1 if current.answers else 0

    def is_over(began: int) -> bool:
        age = rounds.staleness(began, opened.number) + next_version
        return not goes_on or age > terms.max_staleness

    ages = {
        answer.index: rounds.staleness(answer.began, opened.number)
        for answer in current.answers.values()
    }
    ended = (n for n, order in rounds.standing.items() if n in over or is_over(order.number))
    return Ending(
        devices=tuple(sorted(ended)),
        left_out=tuple(one.index for one in rounds.waiting.values() if is_over(one.began)),
        staleness={index: age for index, age in ages.items() if age},
    )
