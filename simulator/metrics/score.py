"""What a run is scored by, and the words for it: accuracy of samples, or mIoU of pixels.

Metrics, tables and pictures are written about accuracy. Of a run that is scored by mIoU the same
fields hold mIoU, and every text that people read passes through `say`, or stands here twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Score = Literal["accuracy", "mIoU"]
"""Share of right answers, or mean intersection over union of background and all seen classes."""
SaidScore = Literal["accuracy", "mIoU", "score"]
"""How it is called; `score` where runs of different scores stand beside each other."""


def say(score: SaidScore, text: str) -> str:
    """Return a text about accuracy as one about `score`."""
    if score == "accuracy":
        return text
    first = score[0].upper() if score == "score" else score[0]
    return text.replace("Accuracy", first + score[1:]).replace("accuracy", score)


def name_in_files(score: SaidScore, name: str) -> str:
    """Return the name of a number or a file likewise, in small letters."""
    return say(score, name).replace("mIoU", "miou")


def common_score(scores: Iterable[Score]) -> SaidScore:
    """Return what several runs are scored by, `score` where they differ."""
    met = set(scores)
    return met.pop() if len(met) == 1 else "score"
