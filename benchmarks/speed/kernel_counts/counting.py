"""What a training costs by step, by epoch and once, from three runs of different length.

    count(E, S) = fixed + E * (epoch + S * step)        E epochs of S batches each

holds for every kind of count, since a training does the same in each step and in each epoch; so
three runs, (1, 1), (2, 1) and (2, 2), tell the three terms exactly, and a fourth, (3, 2), that it
holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.speed.kernel_counts.accelerator import counted

Totals = dict[str, int]
"""By kind: kernels, to_device, to_host, waits, host, host_convolutions."""


class NotLinearError(RuntimeError):
    """A training whose steps or epochs do not all do the same."""


@dataclass(frozen=True)
class Costs:
    """The counts of one training, by their kind."""

    step: Totals
    epoch: Totals
    fixed: Totals


def costs_of(run: Callable[[int, int], Callable[[], object]]) -> Costs:
    """Return the costs of a training that `run` prepares for a number of epochs and of batches.

    Raises `NotLinearError` where steps differ.
    """
    one, two, four, six = (
        counted(run(*size)).totals() for size in ((1, 1), (2, 1), (2, 2), (3, 2))
    )
    step = {kind: (four[kind] - two[kind]) / 2 for kind in one}
    epoch = {kind: two[kind] - one[kind] - step[kind] for kind in one}
    fixed = {kind: one[kind] - epoch[kind] - step[kind] for kind in one}
    for kind in one:
        expected = fixed[kind] + 3 * (epoch[kind] + 2 * step[kind])
        if six[kind] != expected or step[kind] % 1:
            raise NotLinearError(f"{kind}: {six[kind]} in six steps, and {expected} were expected")
    return Costs(*({kind: int(terms[kind]) for kind in terms} for terms in (step, epoch, fixed)))
