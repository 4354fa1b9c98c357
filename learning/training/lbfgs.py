"""L-BFGS for many problems at once, each with a history, a step and an end of its own.

torch's optimiser over a batch shares one curvature between its rows; here row i behaves as
`torch.optim.LBFGS` without a line search would on row i alone (Liu and Nocedal 1989, as torch has
it): steps of `rate`, the first no longer than 1 in the sum of absolute gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Function = Callable[[Tensor, Tensor], Tensor]
"""From points (k, n) and the numbers of their rows (k,) to values (k,); rows do not mix."""

_LEAST_CURVATURE = 1e-10
"""Of a pair y, s below which it is not remembered."""


@dataclass(frozen=True)
class LbfgsSettings:
    """When rows step and when they end; `steps` outer steps of up to `inner` iterations each."""

    rate: float = 1.0
    steps: int = 120
    inner: int = 20
    history: int = 100
    tolerance_gradient: float = 1e-7
    tolerance_change: float = 1e-9


class BatchedLbfgs:
    """Rows of points (R, n) on their way; `step` takes each row an outer step further."""

    def __init__(self, function: Function, start: Tensor, settings: LbfgsSettings) -> None:
        rows, size = start.shape
        self.points = start.clone()
        self._function = function
        self._settings = settings
        self._iterations = torch.zeros(rows, dtype=torch.int64, device=start.device)
        self._gradients = torch.zeros_like(start)
        self._values = start.new_zeros(rows)
        self._moves = torch.zeros_like(start)
        """Of the last iteration: t d."""
        self._former = torch.zeros_like(start)
        """Gradients before the last iteration."""
        self._scale = start.new_ones(rows)
        """gamma of the first guess of the inverse Hessian, gamma I."""
        self._remembered = torch.zeros(rows, dtype=torch.int64, device=start.device)
        slots = min(settings.history, settings.steps * settings.inner)
        self._y = start.new_zeros(slots, rows, size)
        self._s = start.new_zeros(slots, rows, size)
        self._rho = start.new_zeros(slots, rows)

    def step(self) -> Tensor:
        """Take every row an outer step further; return the values (R,) at its beginning."""
        everything = torch.arange(len(self.points), device=self.points.device)
        values, gradients = self._evaluate(everything)
        self._gradients, self._values = gradients, values
        began = values.clone()
        rows = everything[gradients.abs().amax(dim=1) > self._settings.tolerance_gradient]
        for iteration in range(self._settings.inner):
            if not len(rows):
                break
            rows = self._iterate(rows, last=iteration == self._settings.inner - 1)
        return began

    def _iterate(self, rows: Tensor, *, last: bool) -> Tensor:
        """Move `rows` once; return those that go on within this outer step."""
        settings, gradients = self._settings, self._gradients[rows]
        first = self._iterations[rows] == 0
        self._iterations[rows] += 1
        self._remember(rows[~first])
        directions = self._direction(rows)
        lengths = gradients.abs().sum(dim=1)
        rates = torch.where(first, (1 / lengths).clamp(max=1.0), torch.ones_like(lengths))
        moves = (settings.rate * rates).unsqueeze(1) * directions
        self._moves[rows], self._former[rows] = moves, gradients
        former_values = self._values.clone()
        descends = (gradients * directions).sum(dim=1) <= -settings.tolerance_change
        rows, moves = rows[descends], moves[descends]
        self.points[rows] += moves
        if last or not len(rows):
            return rows[:0]
        values, new = self._evaluate(rows)
        self._values[rows], self._gradients[rows] = values, new
        goes_on = (
            (new.abs().amax(dim=1) > settings.tolerance_gradient)
            & (moves.abs().amax(dim=1) > settings.tolerance_change)
            & ((values - former_values[rows]).abs() >= settings.tolerance_change)
        )
        return rows[goes_on]

    def _remember(self, rows: Tensor) -> None:
        """Keep y and s of the last iteration where they curve upwards; the oldest pair goes."""
        y, s = self._gradients[rows] - self._former[rows], self._moves[rows]
        curvature = (y * s).sum(dim=1)
        kept = curvature > _LEAST_CURVATURE
        rows, y, s, curvature = rows[kept], y[kept], s[kept], curvature[kept]
        slots = self._remembered[rows] % len(self._y)
        self._y[slots, rows], self._s[slots, rows] = y, s
        self._rho[slots, rows] = 1 / curvature
        self._scale[rows] = curvature / (y * y).sum(dim=1)
        self._remembered[rows] += 1

    def _direction(self, rows: Tensor) -> Tensor:
        """Return -H g by the two loops, from the newest pair to the oldest and back."""
        slots, count = len(self._y), self._remembered[rows]
        most = min(int(count.max()), slots)
        result = -self._gradients[rows]
        factors = []
        for age in range(most):
            slot, there = (count - 1 - age) % slots, age < count
            factor = self._rho[slot, rows] * (self._s[slot, rows] * result).sum(dim=1) * there
            result = result - factor.unsqueeze(1) * self._y[slot, rows]
            factors.append(factor)
        result = self._scale[rows].unsqueeze(1) * result
        for age in reversed(range(most)):
            slot, there = (count - 1 - age) % slots, age < count
            back = self._rho[slot, rows] * (self._y[slot, rows] * result).sum(dim=1) * there
            result = result + (factors[age] - back).unsqueeze(1) * self._s[slot, rows]
        return result

    def _evaluate(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            points = self.points[rows].detach().requires_grad_()
            values = self._function(points, rows)
            (gradients,) = torch.autograd.grad(values.sum(), points)
        return values.detach(), gradients
