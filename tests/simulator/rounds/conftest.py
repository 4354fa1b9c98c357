"""Torch computes on one thread here; whole runs may have a cache of their own."""

from pathlib import Path

import pytest

from tests.learning.training.threads import one_thread

__all__ = ["one_thread"]


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cache nothing beyond the test."""
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "cache"))
