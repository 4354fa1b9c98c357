"""Many problems at once are solved as torch's optimiser solves each alone."""

from dataclasses import replace

import pytest
import torch

from fleetledger.learning.training.lbfgs import BatchedLbfgs, LbfgsSettings

pytestmark = pytest.mark.torch

ROWS, SIZE = 5, 6


def problems():
    """Return curved functions of different scale, one for each row, and a start."""
    generator = torch.Generator().manual_seed(3)
    scales = 10 ** torch.linspace(-2, 2, ROWS, dtype=torch.float64)
    matrices = torch.randn(ROWS, SIZE, SIZE, dtype=torch.float64, generator=generator)
    curved = matrices @ matrices.mT + 0.1 * torch.eye(SIZE, dtype=torch.float64)
    centres = torch.randn(ROWS, SIZE, dtype=torch.float64, generator=generator)

    def function(points, rows):
        away = points - centres[rows]
        square = torch.einsum("rn,rnm,rm->r", away, curved[rows], away)
        return scales[rows] * (square + 0.05 * away.pow(4).sum(dim=1))

    return function, torch.randn(ROWS, SIZE, dtype=torch.float64, generator=generator)


def by_torch(function, start, row, settings):
    point = start[row : row + 1].clone().requires_grad_()
    optimiser = torch.optim.LBFGS(
        [point],
        lr=settings.rate,
        max_iter=settings.inner,
        max_eval=10**9,
        history_size=settings.history,
        tolerance_grad=settings.tolerance_gradient,
        tolerance_change=settings.tolerance_change,
    )
    values = []

    def closure():
        optimiser.zero_grad()
        value = function(point, torch.tensor([row]))[0]
        value.backward()
        return value

    for _ in range(settings.steps):
        values.append(optimiser.step(closure).item())
    return point.detach()[0], values


@pytest.mark.parametrize(
    "settings",
    [
        LbfgsSettings(rate=0.5, steps=4, inner=5),
        LbfgsSettings(rate=0.1, steps=6, inner=3, history=4),
        LbfgsSettings(rate=1.0, steps=30, inner=1),
        LbfgsSettings(rate=0.3, steps=3, inner=20, history=7),
    ],
)
def test_each_row_goes_the_way_of_torch(settings):
    function, start = problems()
    batch = BatchedLbfgs(function, start, settings)
    values = torch.stack([batch.step() for _ in range(settings.steps)])
    for row in range(ROWS):
        point, expected = by_torch(function, start, row, settings)
        torch.testing.assert_close(values[:, row], torch.tensor(expected, dtype=torch.float64))
        torch.testing.assert_close(batch.points[row], point, rtol=1e-7, atol=1e-9)


def test_a_row_does_not_depend_on_the_others():
    function, start = problems()
    settings = LbfgsSettings(steps=5, inner=4, rate=0.5)
    together, alone = (BatchedLbfgs(function, begin, settings) for begin in (start, start[:1]))
    for _ in range(settings.steps):
        together.step()
        alone.step()
    torch.testing.assert_close(together.points[:1], alone.points)


def test_what_is_solved_stays_where_it_is():
    function, start = problems()
    batch = BatchedLbfgs(function, start, LbfgsSettings(steps=60, inner=20, rate=0.7))
    for _ in range(60):
        batch.step()
    solved = batch.points.clone()
    values = batch.step()
    assert values.max() < 1e-9
    torch.testing.assert_close(batch.points, solved, rtol=0, atol=1e-8)


def flat_far_away(points, rows):
    """A hole whose sides are steep, and flat a little further away."""
    scales = torch.where(rows % 2 == 0, 50.0, 20.0).to(points.dtype)
    return scales * torch.tanh(points.square().sum(dim=1) + 0.3 * torch.sin(3 * points).sum(dim=1))


def test_a_row_that_jumps_begins_again_from_its_best_point():
    start = torch.full((4, 3), 0.9, dtype=torch.float64)
    plain = LbfgsSettings(rate=30.0, steps=20, inner=5)
    lost, kept = (
        BatchedLbfgs(flat_far_away, start, replace(plain, safeguard=safe)) for safe in (False, True)
    )
    began = [search.step() for search in (lost, kept)]
    torch.testing.assert_close(began[0], began[1])
    for _ in range(plain.steps - 1):
        ended = [search.step() for search in (lost, kept)]
    assert (ended[0] >= began[0]).all()
    assert (ended[1] < began[1] - 0.01).all()


def test_a_value_that_is_no_number_does_not_end_a_row():
    def function(points, rows):
        return torch.where(points[:, 0] < 0, torch.nan, (points - 0.2).square().sum(dim=1))

    start = torch.ones(2, 3, dtype=torch.float64)
    search = BatchedLbfgs(function, start, LbfgsSettings(rate=5.0, steps=20, safeguard=True))
    for _ in range(20):
        values = search.step()
    assert (values < 1e-9).all()


def test_the_safeguard_changes_nothing_where_nothing_jumps():
    function, start = problems()
    settings = LbfgsSettings(rate=0.5, steps=4, inner=5)
    plain, safe = (
        BatchedLbfgs(function, start, replace(settings, safeguard=on)) for on in (False, True)
    )
    for _ in range(settings.steps):
        torch.testing.assert_close(plain.step(), safe.step(), rtol=0, atol=0)
    assert torch.equal(plain.points, safe.points)


def test_a_row_that_is_good_enough_stays():
    function, start = problems()
    search = BatchedLbfgs(function, start, LbfgsSettings(steps=9, rate=0.5, enough=1e-2))
    for _ in range(9):
        search.step()
    before = search.points.clone()
    assert (search.step() <= 1e-2).all()
    assert torch.equal(search.points, before)
