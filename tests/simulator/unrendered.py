"""Runs of tests draw their pictures and render none: that takes longer than the runs themselves."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from fleetledger.simulator.report import comparison, files
from fleetledger.simulator.report.pictures import gallery

_DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAG7buVgAAAABJRU5ErkJggg=="
)


@pytest.fixture(scope="module", autouse=True)
def unrendered() -> Iterator[None]:
    """Write a dot in place of every picture of a report."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (comparison, gallery, files):
            patch.setattr(module, "as_png", lambda _figure: _DOT)
        yield
