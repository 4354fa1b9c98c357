"""Who lives in a home: remembered at the first start, compared with the settings at each later one.

A home keeps what is one device's or one fleet's alone: counted samples, parts, a ledger. Under
another name it would give them twice, or to another fleet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from fleetledger.runtime.private_file import write_private
from fleetledger.runtime.settings_file import SettingsError

FILE_NAME = "identity.json"


def remember(folder: Path, settings_file: Path, names: Mapping[str, str]) -> None:
    """Store the names that a home has in its settings, or compare them with what is stored.

    `names` maps a setting to its value, `folder` is where the home keeps its state. Raises
    `SettingsError` where a setting has another value than at the first start, or where the file
    cannot be read or written.
    """
    path = folder / FILE_NAME
    try:
        known = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        _store(path, names)
        return
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: cannot be read ({error}); delete it") from error
    for name, value in names.items():
        former = known.get(name, value) if isinstance(known, dict) else value
        if former != value:
            raise SettingsError(
                f"{settings_file}: {name}: {value!r}, and this home is that of {former!r}: what it "
                f"keeps is of that {name}. Set it back, or make another home with `init --home`; "
                f"if this home is to change its name with all that it keeps, delete {path}"
            )


def _store(path: Path, names: Mapping[str, str]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, json.dumps(dict(names)).encode() + b"\n")
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror}") from error
