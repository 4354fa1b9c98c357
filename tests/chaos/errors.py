"""What is raised where a disturbed fleet is not what it promised to be."""

from fleetledger.simulator.errors import SimulatorError


class ChaosError(SimulatorError):
    """A disturbed fleet broke a promise; the message names seed and promise, and how to repeat."""
