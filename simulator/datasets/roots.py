"""Where a data set lies."""

from __future__ import annotations

from pathlib import Path

from fleetledger.simulator.errors import DatasetError
from fleetledger.simulator.scenario.sections import DataSettings


def root_of(data: DataSettings, what: str = "the folder of the data set") -> Path:
    """Return the file or folder that `[data]` names; raise `DatasetError` where it names none."""
    if data.root is None:
        raise DatasetError(
            f"data.root: missing; {data.set!r} lies on disk, so give {what} (docs/datasets.md "
            "tells the layout)"
        )
    return Path(data.root).expanduser()
