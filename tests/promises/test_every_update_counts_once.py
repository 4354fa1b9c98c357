"""Promise 1: no accepted contribution is lost and none counts twice, whatever the network does.

At 20 % loss, 20 % doubles and messages that overtake up to fifty others, while broker, coordinator
and devices are killed. `python -m tests.promises` does all seeds with ten thousand contributions.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.promises.troubled_fleet import PATIENCE, Story, troubled, undisturbed

SEEDS = range(20)
BY_DAY = 2
"""So many seeds, each with all kinds of troubles; the others repeat that at other moments."""
pytestmark = pytest.mark.timeout(PATIENCE)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return undisturbed(tmp_path_factory.mktemp("few"), 300)


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=[pytest.mark.nightly] if seed >= BY_DAY else []) for seed in SEEDS],
)
def test_a_few_hundred_contributions_count_once_each(few: Story, tmp_path: Path, seed: int) -> None:
    troubled(few, tmp_path / "home", seed)


@pytest.mark.nightly
def test_some_thousand_contributions_count_once_each(tmp_path: Path) -> None:
    troubled(undisturbed(tmp_path / "undisturbed", 3_000), tmp_path / "home", seed=0)
