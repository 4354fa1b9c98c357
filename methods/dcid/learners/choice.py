"""The learner that the settings name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from methods.dcid.learners.erdil import Erdil
from methods.dcid.learners.icarl import Icarl
from methods.dcid.learners.interface import Learner
from methods.dcid.learners.lucir import Lucir
from methods.dcid.learners.tpcil import Tpcil
from methods.dcid.settings import LearnerName, LearnerSettings

_LEARNERS: Mapping[LearnerName, Callable[[LearnerSettings], Learner]] = {
    "icarl": Icarl,
    "lucir": Lucir,
    "erdil": Erdil,
    "tpcil": Tpcil,
}


def learner_of(settings: LearnerSettings) -> Learner:
    """Return the sites' learner."""
    return _LEARNERS[settings.learner](settings)
