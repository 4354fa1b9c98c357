"""Settings files: TOML into a validated model, with errors for the person who wrote the file."""

from __future__ import annotations

import stat
import sys
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.runtime.regular_files import read_regular, regular_status
from fleetledger.runtime.setting_faults import describe_faults
from fleetledger.runtime.user_text import decode_text, lines_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_LONGEST_SECRET = 4096
Settings = TypeVar("Settings", bound=BaseModel)


class SettingsError(FleetledgerError):
    """A settings file is missing, unreadable, not TOML, or holds a value that is not allowed."""


def read_secret(home: Path, file: Path | None) -> str | None:
    """Return the one line of a broker's password file in `home`, or None where none is set.

    Raises `SettingsError` naming the file if others may read it, or nobody can; what it holds is
    in no error.
    """
    if file is None:
        return None
    path = home / file
    try:
        mode = stat.S_IMODE(regular_status(path).st_mode)
        lines = lines_of(decode_text(read_regular(path, _LONGEST_SECRET)).strip())
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SettingsError(
            f"broker.password_file: {path}: cannot be read: {why}; put the password there, on one "
            "line"
        ) from error
    if mode & 0o077:
        raise SettingsError(
            f"broker.password_file: {path}: others may read it (mode {mode:04o}); "
            f"run `chmod 600 {path}`"
        )
    if len(lines) != 1:
        raise SettingsError(
            f"broker.password_file: {path}: {count_of(len(lines), 'line')}; put the password on "
            "one line"
        )
    return lines[0]


def find_secret(home: Path, file: Path | None) -> Path | None:
    """Return the path of a password file, tried out; raise as `read_secret` does."""
    read_secret(home, file)
    return None if file is None else home / file


def load_settings(path: Path, model: type[Settings]) -> Settings:
    """Read the TOML file at `path` as `model`; raise `SettingsError` naming file, key, value."""
    try:
        text = decode_text(path.read_bytes())
    except FileNotFoundError as error:
        raise SettingsError(
            f"{path}: there is no such settings file; make one with `init`"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}; it must be UTF-8 text") from error
    try:
        return model.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not TOML: {error}; mend that line") from error
    except ValidationError as error:
        raise SettingsError(f"{path}: {describe_faults(error, model)}") from error
