"""`classes.toml`: what the values of a folder's masks are called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.device_agent.errors import SourceError
from fleetledger.device_agent.samples.sources.masks import BACKGROUND, IGNORED
from fleetledger.runtime.settings_file import SettingsError, load_settings
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.models import BACKGROUND as BACKGROUND_NAME
from fleetledger.schemas.values import ClassName

Written = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]*)$")]
"""A value as TOML has it, whose keys are text."""


class MaskClasses(Strict):
    """The names of the values 1 to 254 that masks have; 0 is background, 255 is left out."""

    classes: dict[Written, ClassName] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_value_per_class(self) -> Self:
        held: dict[ClassName, str] = {}
        for value, name in self.classes.items():
            if not BACKGROUND < int(value) < IGNORED:
                raise ValueError(f"{value} = {name!s}: give classes values from 1 to 254")
            if name == BACKGROUND_NAME:
                raise ValueError(
                    f"{value} = {name!s}: that is 0; leave it out, or rename the class"
                )
            if name in held:
                raise ValueError(f"{name!s} is {held[name]} and {value}; give it one value")
            held[name] = value
        return self

    @property
    def names(self) -> dict[int, ClassName]:
        """Name of each value, ascending."""
        return dict(sorted((int(value), name) for value, name in self.classes.items()))


def load_mask_classes(path: Path) -> MaskClasses:
    """Read the file at `path`; raise `SourceError` naming file, value and name."""
    if not path.is_file():
        raise SourceError(
            f"{path}: there is no such file; write one that says [classes] and then, for each "
            'value of the masks, its class, like 1 = "cat"'
        )
    try:
        return load_settings(path, MaskClasses)
    except SettingsError as error:
        raise SourceError(str(error)) from error
