"""The error tree of the simulator.

SimulatorError              (a schemas.errors.FleetledgerError)
├── DatasetError            a data set cannot be loaded or split as asked
├── PlanError               a scenario's classes, stages or devices do not fit its data set
├── PartitionError          samples cannot be dealt to the devices as asked
├── MetricsError            scores that do not fit together
├── ScenarioError           a scenario cannot be read, or asks for what does not go together
├── BackboneError           the frozen network of a scenario cannot be had
├── RunError                a run folder cannot be written, read or gone on with
├── NewPackageError         a package of one's own cannot be written
├── EngineError             a fleet does not get through a stage
│   ├── ProcessDiedError    one of its programs ended by itself
│   └── WaitedTooLongError  something awaited did not happen in time
└── AttackError             an attack cannot be tried on what was given
"""

from fleetledger.runtime.errors import FleetledgerError


class SimulatorError(FleetledgerError):
    """Base of everything the simulator raises on purpose."""


class DatasetError(SimulatorError):
    """A data set cannot be loaded, or not be split as asked."""


class PlanError(SimulatorError):
    """A scenario's classes, stages or devices do not fit its data set or each other."""


class PartitionError(SimulatorError):
    """Samples cannot be dealt to the devices as asked."""


class MetricsError(SimulatorError):
    """Scores that do not fit together: shapes, negative counts, more right than asked."""


class ScenarioError(SimulatorError):
    """A scenario cannot be read, or asks for what does not go together."""


class BackboneError(SimulatorError):
    """The frozen network of a scenario cannot be had."""


class RunError(SimulatorError):
    """A run folder cannot be written, read or gone on with."""


class NewPackageError(SimulatorError):
    """A package of one's own cannot be written: its name or its folder is taken."""


class EngineError(SimulatorError):
    """A fleet does not get through a stage; the message says what is missing and where to look."""


class ProcessDiedError(EngineError):
    """A program of the fleet ended by itself; the message holds its last words."""


class WaitedTooLongError(EngineError):
    """Something awaited did not happen in time; the message says what, and what is there."""


class AttackError(SimulatorError):
    """An attack cannot be tried on what was given; the message names the option."""
