"""The operator's commands about rounds."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fleetledger.runtime.strict import Strict


class ResumeRounds(Strict):
    """Try the rounds of the open stage again, which had stopped."""

    verb: Literal["resume-rounds"] = "resume-rounds"


class AdaptModel(Strict):
    """Train an adapter on top of the newest model that was solved."""

    verb: Literal["adapt-model"] = "adapt-model"
    version: int | None = Field(default=None, ge=1)
    """That model's, so that no other is meant; None for whichever it is."""


RoundCommand = ResumeRounds | AdaptModel
