"""Budget arithmetic: epsilon at a delta of releases with Gaussian noise, and noise for a budget.

A release is a vector with discrete Gaussian noise. Its `multiplier` z is the noise's deviation over
the largest length by which one protected contribution (an image, or all of a device) can change the
vector. Rényi differential privacy composes by addition: R(a) = sum of a / (2 z^2) over releases,
and the guarantee at delta is (Canonne, Kamath and Steinke 2020, Proposition 12)

    epsilon = min over a of R(a) + log(1 - 1/a) - log(a delta) / (a - 1)

That bound is proven for discrete Gaussians of any dimension, which the tighter accounting by
privacy loss distributions of continuous ones is not; the price is 6 to 9 percent more noise.
Releases by a sample of devices cost less; dp-accounting computes their R(a), and only they need it.

Neighbours differ in one protected contribution that is there or not (a sample that is not there
counts as empty). Epsilon holds for whoever does not know which devices a sample had.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, log, log1p

from fleetledger.learning.errors import PrivacyError

MOST_NOISE = 200.0
"""Largest deviation of noise on one update, in units of the clip. No draw is 9 deviations away, and
(1 + 9 * 200) 2^20, in the steps of `learning.numerics.clipping`, fits int32."""
ORDERS: tuple[float, ...] = (
    *(1 + step / 50 for step in range(1, 500)),
    *(11 + step / 4 for step in range(212)),
    *range(64, 256, 4),
    *(256.0, 384.0, 512.0, 768.0, 1024.0, 2048.0, 4096.0),
)
"""Orders a among which the best is taken; any set is sound."""
_SAMPLED_ORDERS: tuple[float, ...] = (
    *(1 + step / 10 for step in range(1, 100)),
    *range(11, 64),
    *(128.0, 256.0, 512.0, 1024.0),
)
"""Orders where a release is sampled, as dp-accounting's own: each costs a sum of binomials."""


@dataclass(frozen=True)
class Spending:
    """Releases of one kind: `times` of them with the same noise over the same sampling.

    `chosen` of `population` devices take part in each, drawn anew; equal numbers mean everybody.
    """

    multiplier: float
    """Deviation of the noise over the largest length of one protected contribution."""
    times: int = 1
    chosen: int = 1
    population: int = 1
    poisson: bool = False
    """Each device takes part by its own chance `chosen / population`; else exactly `chosen` do."""

    def __post_init__(self) -> None:
        if not 0 < self.multiplier < inf or self.times < 0:
            raise PrivacyError(
                f"multiplier: {self.multiplier:g}, times: {self.times}; give more than 0, and 0 or "
                "more"
            )
        if not 1 <= self.chosen <= self.population:
            raise PrivacyError(
                f"chosen: {self.chosen}; give 1 to the population, {self.population}"
            )

    @property
    def sampled(self) -> bool:
        """Whether chance leaves devices out."""
        return self.chosen < self.population


def epsilon_of(spendings: Iterable[Spending], delta: float) -> float:
    """Return epsilon at `delta` of all the spendings together; 0 of none.

    Raises `PrivacyError` for a delta outside (0, 1), and where a sampled release needs
    dp-accounting and that is not installed.
    """
    if not 0 < delta < 1:
        raise PrivacyError(f"delta: {delta:g}; give more than 0 and less than 1, such as 1e-5")
    every = [spending for spending in spendings if spending.times]
    sampled = [spending for spending in every if spending.sampled]
    half = sum(one.times / one.multiplier**2 for one in every if not one.sampled) / 2
    if not every:
        return 0.0
    orders = _SAMPLED_ORDERS if sampled else ORDERS
    divergences = [half * order for order in orders]
    for spending in sampled:
        curve = _sampled_divergences(
            spending.multiplier, spending.chosen, spending.population, spending.poisson
        )
        divergences = [
            sum_ + spending.times * one for sum_, one in zip(divergences, curve, strict=True)
        ]
    return _epsilon(orders, divergences, delta)


def multiplier_for(epsilon: float, delta: float, like: Spending = Spending(1.0)) -> float:
    """Return the least multiplier with which releases `like` these stay within the budget.

    It is found to one part in a million, and rounded up. Raises `PrivacyError` where none up to
    10^6 is enough.
    """
    if not 0 < epsilon < inf:
        raise PrivacyError(f"epsilon: {epsilon:g}; give more than 0")

    def spent(multiplier: float) -> float:
        releases = Spending(multiplier, like.times, like.chosen, like.population, like.poisson)
        return epsilon_of([releases], delta)

    low, high = 1e-3, 1.0
    while spent(high) > epsilon:
        low, high = high, 2 * high
        if high > 1e6:
            raise PrivacyError(f"epsilon: {epsilon:g} at delta {delta:g}; give a larger budget")
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if spent(middle) <= epsilon else (middle, high)
    return high


def _epsilon(orders: Sequence[float], divergences: Sequence[float], delta: float) -> float:
    return max(
        0.0,
        min(
            divergence + log1p(-1 / order) - log(delta * order) / (order - 1)
            for order, divergence in zip(orders, divergences, strict=True)
        ),
    )


@lru_cache(maxsize=256)
def _sampled_divergences(
    multiplier: float, chosen: int, population: int, poisson: bool
) -> tuple[float, ...]:
    """Return R(a) of one release by a sample, at `_SAMPLED_ORDERS`.

    A sample of a fixed size compares two devices in one place, which changes the sum by twice the
    length, so the multiplier is halved.
    """
    try:
        import dp_accounting  # noqa: PLC0415 - of an extra
        from dp_accounting import rdp  # noqa: PLC0415
    except ImportError as error:
        raise PrivacyError(
            "dp-accounting: not installed, and sampled releases are accounted by it; pip install "
            "'fleetledger[privacy]'"
        ) from error
    relation = dp_accounting.NeighboringRelation
    if poisson:
        event = dp_accounting.PoissonSampledDpEvent(
            chosen / population, dp_accounting.GaussianDpEvent(multiplier)
        )
        accountant = rdp.RdpAccountant(_SAMPLED_ORDERS, relation.ADD_OR_REMOVE_ONE)
    else:
        event = dp_accounting.SampledWithoutReplacementDpEvent(
            population, chosen, dp_accounting.GaussianDpEvent(multiplier / 2)
        )
        accountant = rdp.RdpAccountant(_SAMPLED_ORDERS, relation.REPLACE_ONE)
    accountant.compose(event)
    return tuple(float(one) for one in accountant.rdp)
