"""Learning rates of a round's local epochs, as the released program has them.

There the rate is divided where a counter of epochs over a task's rounds arrives at a mark, and
every round begins with the whole rate again. With 10 rounds of 20 epochs the marks are 100, 150 and
180: the sixth round runs at a fifth, the eighth from its middle on at a 25th, the last at a 125th.
Here marks keep their places, the middle, three quarters and nine tenths, whatever the numbers are.
"""

from __future__ import annotations

from fleetledger.learning.training.schedules import constant_rates
from fleetledger.methods.lga.settings import LgaSettings

_DIVISORS = {(1, 2): 5.0, (3, 4): 25.0, (9, 10): 125.0}


def rates_of(settings: LgaSettings, round_of_stage: int, rounds_of_stage: int) -> tuple[float, ...]:
    """Return the rate of each local epoch; rounds of a stage count from 1."""
    epochs = settings.epochs
    if settings.schedule == "constant":
        return constant_rates(settings.rate, epochs)
    total = epochs * rounds_of_stage
    marks = {total * part // whole: by for (part, whole), by in _DIVISORS.items()}
    rates, divisor = [], 1.0
    for epoch in range(epochs):
        divisor = marks.get((round_of_stage - 1) * epochs + epoch, divisor)
        rates.append(settings.rate / divisor)
    return tuple(rates)
