"""The error tree of the simulator.

SimulatorError              (a schemas.errors.FleetledgerError)
├── DatasetError            a data set cannot be loaded or split as asked
├── PartitionError          samples cannot be dealt to the devices as asked
├── MetricsError            scores that do not fit together
└── DemoError               the demo cannot begin or go on
    ├── ProcessDiedError    one of its programs ended by itself
    └── WaitedTooLongError  something awaited did not happen in time
"""

from __future__ import annotations

from schemas.errors import FleetledgerError


class SimulatorError(FleetledgerError):
    """Base of everything the simulator raises on purpose."""


class DatasetError(SimulatorError):
    """A data set cannot be loaded, or not be split as asked."""


class PartitionError(SimulatorError):
    """Samples cannot be dealt to the devices as asked."""


class MetricsError(SimulatorError):
    """Scores that do not fit together: shapes, negative counts, more right than asked."""


class DemoError(SimulatorError):
    """The demo cannot begin or go on; the message says why and where to look."""


class ProcessDiedError(DemoError):
    """One of the demo's programs ended by itself; the message holds its last words."""


class WaitedTooLongError(DemoError):
    """Something awaited did not happen in time; the message says what, and what is there."""
