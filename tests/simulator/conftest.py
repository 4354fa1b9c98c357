"""Runs render no pictures, but in the tests of reports."""

from tests.simulator.unrendered import unrendered

__all__ = ["unrendered"]
