"""L-BFGS for many problems at once, each with a history, a step and an end of its own.

torch's optimiser over a batch shares one curvature between its rows; here row i behaves as
`torch.optim.LBFGS` without a line search would on row i alone (Liu and Nocedal 1989, as torch has
it): steps of `rate`, the first no longer than 1 in the sum of absolute gradients. The two loops
over a row's pairs are two triangular systems, so that a history of hundreds costs matrix products.

Without a line search a row can jump to where its function is flat. With `safeguard`, one whose
value is not finite, or above that of its beginning, goes back to the best point that it has seen,
forgets its pairs and goes on with a tenth of its rate.
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
_CAREFUL = 0.1
"""Share of its rate with which a row begins again."""


@dataclass(frozen=True)
class LbfgsSettings:
    """When rows step and when they end; `steps` outer steps of up to `inner` iterations each."""

    rate: float = 1.0
    steps: int = 120
    inner: int = 20
    history: int = 100
    tolerance_gradient: float = 1e-7
    tolerance_change: float = 1e-9
    enough: float = 0.0
    """A row with a smaller value stays where it is."""
    safeguard: bool = False


class BatchedLbfgs:
    """Rows of points (R, n) on their way; `step` takes each row an outer step further."""

    def __init__(self, function: Function, start: Tensor, settings: LbfgsSettings) -> None:
        rows = len(start)
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
        self._rates = start.new_full((rows,), settings.rate)
        self._history = _History(start, min(settings.history, settings.steps * settings.inner))
        self._highest = start.new_full((rows,), torch.inf)
        """Value at the beginning."""
        self._best = _Seen(start.clone(), start.new_full((rows,), torch.inf), start.clone())

    def step(self) -> Tensor:
        """Take every row an outer step further; return the values (R,) at its beginning."""
        rows = torch.arange(len(self.points), device=self.points.device)
        self._evaluate(rows)
        began = self._values.clone()
        rows = rows[self._unsolved(rows)]
        for iteration in range(self._settings.inner):
            if not len(rows):
                break
            rows = self._iterate(rows, last=iteration == self._settings.inner - 1)
        return began

    def _iterate(self, rows: Tensor, *, last: bool) -> Tensor:
        """Move `rows` once; return those that go on within this outer step."""
        least, gradients = self._settings.tolerance_change, self._gradients[rows]
        first = self._iterations[rows] == 0
        self._iterations[rows] += 1
        old = rows[~first]
        self._history.remember(old, self._gradients[old] - self._former[old], self._moves[old])
        directions = self._history.directions(rows, gradients)
        lengths = gradients.abs().sum(dim=1)
        shares = torch.where(first, (1 / lengths).clamp(max=1.0), torch.ones_like(lengths))
        moves = (self._rates[rows] * shares).unsqueeze(1) * directions
        self._moves[rows], self._former[rows] = moves, gradients
        descends = (gradients * directions).sum(dim=1) <= -least
        rows, moves = rows[descends], moves[descends]
        self.points[rows] += moves
        if last or not len(rows):
            return rows[:0]
        former = self._values[rows]
        again = self._evaluate(rows)
        moved = moves.abs().amax(dim=1) > least
        changed = (self._values[rows] - former).abs() >= least
        return rows[self._unsolved(rows) & (moved & changed | again)]

    def _unsolved(self, rows: Tensor) -> Tensor:
        """Tell which of `rows` are still to be moved."""
        steep = self._gradients[rows].abs().amax(dim=1) > self._settings.tolerance_gradient
        return steep & (self._values[rows] > self._settings.enough)

    def _evaluate(self, rows: Tensor) -> Tensor:
        """Find values and gradients of `rows`; tell which of them had to begin again (k,)."""
        with torch.enable_grad():
            points = self.points[rows].detach().requires_grad_()
            values = self._function(points, rows)
            (gradients,) = torch.autograd.grad(values.sum(), points)
        self._values[rows], self._gradients[rows] = values.detach(), gradients
        if not self._settings.safeguard:
            return torch.zeros_like(rows, dtype=torch.bool)
        lost = ~(self._values[rows] <= self._highest[rows])  # true for one that is not a number
        self._begin_again(rows[lost])
        begun = rows[self._highest[rows] == torch.inf]
        self._highest[begun] = self._values[begun]
        better = rows[self._values[rows] < self._best.values[rows]]
        self._best.points[better] = self.points[better]
        self._best.values[better] = self._values[better]
        self._best.gradients[better] = self._gradients[better]
        return lost

    def _begin_again(self, rows: Tensor) -> None:
        self.points[rows] = self._best.points[rows]
        self._values[rows] = self._best.values[rows]
        self._gradients[rows] = self._best.gradients[rows]
        self._rates[rows] *= _CAREFUL
        self._iterations[rows] = 0
        self._history.forget(rows)


@dataclass
class _Seen:
    """Points, their values and gradients."""

    points: Tensor
    values: Tensor
    gradients: Tensor


class _History:
    """The last pairs y, s of every row, in a ring of slots."""

    def __init__(self, start: Tensor, slots: int) -> None:
        rows, size = start.shape
        self._slots = slots
        self._remembered = torch.zeros(rows, dtype=torch.int64, device=start.device)
        self._scale = start.new_ones(rows)
        """gamma of the first guess of the inverse Hessian, gamma I."""
        self._y = start.new_zeros(rows, slots, size)
        self._s = start.new_zeros(rows, slots, size)
        self._curved = start.new_zeros(rows, slots, slots)
        """s_i y_j, where the pair j came after i or is the same."""

    def forget(self, rows: Tensor) -> None:
        """Begin anew for `rows`."""
        self._remembered[rows] = 0
        self._scale[rows] = 1
        self._y[rows], self._s[rows], self._curved[rows] = 0, 0, 0

    def remember(self, rows: Tensor, y: Tensor, s: Tensor) -> None:
        """Keep y and s (k, n) where they curve upwards; the oldest pair goes."""
        curvature = (y * s).sum(dim=1)
        kept = curvature > _LEAST_CURVATURE
        rows, y, s, curvature = rows[kept], y[kept], s[kept], curvature[kept]
        slots = self._remembered[rows] % self._slots
        self._y[rows, slots], self._s[rows, slots] = y, s
        self._scale[rows] = curvature / (y * y).sum(dim=1)
        self._remembered[rows] += 1
        used = self._used(rows)
        against = torch.bmm(self._of(self._s, rows)[:, :used], y.unsqueeze(2)).squeeze(2)
        self._curved[rows, :used, slots] = against

    def directions(self, rows: Tensor, gradients: Tensor) -> Tensor:
        """Return -H g of `rows`, gradients (k, n).

        With R the upper triangle of s_i y_j, the oldest pair first, D its diagonal: the loop from
        the newest pair solves R a = S g, r = gamma (g - Y^T a), and the loop back
        R^T b = D a - Y r, H g = r + S^T b.
        """
        used = self._used(rows)
        scale = self._scale[rows].unsqueeze(1)
        if not used:
            return -scale * gradients
        y, s = self._of(self._y, rows)[:, :used], self._of(self._s, rows)[:, :used]
        order = self._order(rows, used)
        upper = self._upper(rows, order)
        ahead = torch.bmm(s, gradients.unsqueeze(2)).gather(1, order.unsqueeze(2))
        first = torch.linalg.solve_triangular(upper, ahead, upper=True)
        result = scale * (gradients - _combined(y, first, order))
        along = torch.bmm(y, result.unsqueeze(2)).gather(1, order.unsqueeze(2))
        back = upper.diagonal(dim1=1, dim2=2).unsqueeze(2) * first - along
        second = torch.linalg.solve_triangular(upper.mT, back, upper=False)
        return -(result + _combined(s, second, order))

    def _used(self, rows: Tensor) -> int:
        return min(int(self._remembered[rows].max()), self._slots) if len(rows) else 0

    def _order(self, rows: Tensor, used: int) -> Tensor:
        """Return slots (k, used) from the oldest pair to the newest, unused ones last."""
        places = torch.arange(used, device=rows.device).expand(len(rows), used)
        count = self._remembered[rows].unsqueeze(1)
        return torch.where(count > self._slots, (count + places) % self._slots, places)

    def _upper(self, rows: Tensor, order: Tensor) -> Tensor:
        """Return R (k, used, used); 1 on the diagonal where no pair is."""
        used = order.shape[1]
        kept = self._of(self._curved, rows)[:, :used, :used]
        kept = kept.gather(1, order.unsqueeze(2).expand(-1, -1, used))
        kept = kept.gather(2, order.unsqueeze(1).expand(-1, used, -1)).triu()
        empty = kept.diagonal(dim1=1, dim2=2) == 0
        return kept + torch.diag_embed(empty.to(kept.dtype))

    def _of(self, tensor: Tensor, rows: Tensor) -> Tensor:
        """Return those of `rows`, without a copy where they are all."""
        return tensor if len(rows) == len(tensor) else tensor[rows]


def _combined(vectors: Tensor, factors: Tensor, order: Tensor) -> Tensor:
    """Return sums (k, n) of vectors (k, m, n) by factors (k, m, 1) that are given in `order`."""
    placed = torch.zeros_like(factors).scatter(1, order.unsqueeze(2), factors)
    return torch.bmm(placed.mT, vectors).squeeze(1)
