"""The errors of the agent.

AgentError
├── HomeError           the agent's folder is not there, in use, or cannot be written
├── StoreError          what the agent must not lose cannot be read or written
│   └── HeldError       another program holds the database
├── SourceError         the data folder cannot be read
├── LabelError          an image cannot be named as it is asked to be
├── GiveError           an application's sample cannot be taken
├── AgentEndedError     the agent inside an application runs no more
├── SegmentError        pictures cannot be segmented as they are asked to be
├── WorkError           a part cannot be computed
│   └── MissingError    something has to be installed first; names the command
└── ModelError          a model cannot be used here
    ├── DamagedError    a file is not what its digest says; it is fetched again
    ├── RuleError       a file breaks the rules for what may be loaded here
    ├── NoModelError    there is none that could be used
    ├── LoadError       ONNX Runtime refuses a file
    ├── CandidateError  a candidate that is compared with another model does not answer
    ├── VariantError    a variant of a frozen part cannot stand for the reference here
    ├── TrialError      the process that tried a model did not live, or was too slow or too large
    └── SelfTestError   the model runs and gives wrong answers
"""

from __future__ import annotations

from fleetledger.runtime.errors import FleetledgerError
from fleetledger.schemas.values import Digest


class AgentError(FleetledgerError):
    """Base of the agent's errors."""


class HomeError(AgentError):
    """The agent's folder is not there, in use by another agent, or cannot be written."""


class StoreError(AgentError):
    """The agent's database cannot be read or written; nothing of the change was stored."""


class HeldError(StoreError):
    """Another program holds the agent's database; once that ends, all goes on."""


class SourceError(AgentError):
    """The data folder cannot be read."""


class LabelError(AgentError):
    """An image cannot be named so, or not be put where it belongs; it waits as before."""


class GiveError(AgentError):
    """A sample that an application gives cannot be taken; nothing of it was written."""


class AgentEndedError(AgentError):
    """The agent inside an application runs no more; the cause is chained to it."""


class SegmentError(AgentError):
    """Pictures cannot be segmented here, or their masks not be written there."""


class WorkError(AgentError):
    """A part cannot be computed; the images stay and are tried again later."""


class MissingError(WorkError):
    """Something has to be installed before this can be done; the message names the command."""


class ModelError(AgentError):
    """A model cannot be used on this device; the message says why."""


class DamagedError(ModelError):
    """A file is missing or is not what its digest says."""

    def __init__(self, digest: Digest, text: str) -> None:
        self.digest = digest
        super().__init__(text)


class RuleError(ModelError):
    """A file breaks the rules for what may be loaded here; nothing of it was."""


class NoModelError(ModelError):
    """No model is active here, or none that this user may read."""


class LoadError(ModelError):
    """ONNX Runtime refuses a file, or the file is not what the manifest says."""


class CandidateError(ModelError):
    """A candidate passed its test, and does not answer while it is compared."""


class VariantError(ModelError):
    """A variant of a frozen part cannot be used here; the model may run on the reference."""


class TrialError(ModelError):
    """The process that tried a model died or hung, or the model takes too much time or memory."""


class SelfTestError(ModelError):
    """The model loads and runs, and its answers are not those that it should give."""
