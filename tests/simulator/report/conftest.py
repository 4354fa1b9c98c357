"""Pictures are rendered here."""

from collections.abc import Iterator

import pytest

from tests.simulator.unrendered import dots_for_pictures


@pytest.fixture(scope="module", autouse=True)
def unrendered() -> None:
    """Leave pictures as they are."""


@pytest.fixture
def dots() -> Iterator[None]:
    """Render none in a test that looks at none."""
    with dots_for_pictures():
        yield
