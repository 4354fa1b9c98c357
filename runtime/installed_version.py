"""Version of the fleetledger that is installed here."""

from __future__ import annotations


def installed_version() -> str:
    """Return the installed version, or `source` where a program runs from its folder."""
    from importlib.metadata import (  # noqa: PLC0415 - a megabyte, needed once
        PackageNotFoundError,
        version,
    )

    try:
        return version("fleetledger")
    except PackageNotFoundError:
        return "source"
