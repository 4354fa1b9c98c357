"""The errors of the methods.

MethodError
├── UnknownMethodError   no method has this name
└── ContributionError    a payload breaks the rules of its method
"""

from fleetledger.runtime.errors import FleetledgerError


class MethodError(FleetledgerError):
    """Base of the methods' errors."""


class UnknownMethodError(MethodError):
    """No method has this name."""


class ContributionError(MethodError):
    """A payload breaks the rules of its method; the text names field, value and way out."""
