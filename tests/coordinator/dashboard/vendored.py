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
        "idiomorph.min.js",
        "idiomorph",
        "0.8.0",
        "0BSD",
        "dist/idiomorph.min.js",
        "4cbd535caf7663a51eda9bce6595371c384fc430d54b8d414e29a61167f19f96",
    ),
)
