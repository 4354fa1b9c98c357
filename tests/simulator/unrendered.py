"""Runs of tests draw their pictures and render none: that takes longer than the runs themselves."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleetledger.simulator.report import comparison, files
from fleetledger.simulator.report.pictures import gallery
from tests.simulator.dots.sitecustomize import DOT

_OF_PROGRAMS = Path(__file__).parent / "dots"


@pytest.fixture(scope="module", autouse=True)
def unrendered() -> Iterator[None]:
    """Render no picture in all of a module."""
    with dots_for_pictures():
        yield


@contextmanager
def dots_for_pictures() -> Iterator[None]:
    """Write a dot in place of every picture of a report."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (comparison, gallery, files):
            patch.setattr(module, "as_png", lambda _figure: base64.b64decode(DOT))
        yield


def without_pictures(*paths: str | Path) -> dict[str, str]:
    """Return the environment of a program that renders none either; `paths` are to import from."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (_OF_PROGRAMS, *paths)))}
