"""What other projects made and this one ships beside its templates, as it was published."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Vendored:
    """A file of another project, unchanged."""

    file: str
    package: str
    """Its name in npm's registry."""
    version: str
    licence: str
    path: str
    """Of the file in the package."""
    sha256: str


VENDORED = (
    Vendored(
        "htmx.min.js",
        "htmx.org",
        "2.0.11",
        "0BSD",
        "dist/htmx.min.js",
        "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",
    ),
    Vendored(
        "uPlot.iife.min.js",
        "uplot",
        "1.6.32",
        "MIT",
        "dist/uPlot.iife.min.js",
        "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    ),
    Vendored(
        "uPlot.min.css",
        "uplot",
        "1.6.32",
        "MIT",
        "dist/uPlot.min.css",
        "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    ),
)
