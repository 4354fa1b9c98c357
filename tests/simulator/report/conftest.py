"""Pictures are rendered here."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def unrendered() -> None:
    """Leave pictures as they are."""
