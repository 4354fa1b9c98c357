"""The operator's command about rounds."""

from __future__ import annotations

from typing import Literal

from schemas.message import Strict


class ResumeRounds(Strict):
    """Try the rounds of the open stage again, which had stopped."""

    verb: Literal["resume-rounds"] = "resume-rounds"


RoundCommand = ResumeRounds
