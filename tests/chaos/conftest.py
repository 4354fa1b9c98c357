"""Fleets that several tests share, prepared once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.runs import fast_folder
from tests.chaos.trials import Trials
from tests.learning.training.threads import one_thread

__all__ = ["one_thread"]


@pytest.fixture(scope="session")
def trials() -> Iterator[Trials]:
    with fast_folder() as folder:
        yield Trials(folder)


@pytest.fixture(scope="session")
def rollouts() -> Iterator[Trials]:
    """Fleets that get a candidate once they have learned."""
    with fast_folder() as folder:
        yield Trials(folder, rollouts=True)
