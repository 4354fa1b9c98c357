"""The error tree of learning, which stands alone because learning knows no messages.

LearningError          everything this package raises on purpose
├── ImageError         a picture cannot be read
├── RangeError         a number leaves the range in which arithmetic was proven exact
├── FeatureError       features have another shape or kind than the calculation needs
└── SingularError      a system of equations has no stable solution
"""

from __future__ import annotations


class LearningError(Exception):
    """Base of this package's errors; names what is wrong, the value and the way out."""


class ImageError(LearningError):
    """A picture cannot be read: too large, torn, of an unknown format or depth."""


class RangeError(LearningError):
    """A number leaves the range in which arithmetic was proven exact; nothing is clipped."""


class FeatureError(LearningError):
    """Features have another shape or kind than the calculation needs, or are not finite."""


class SingularError(LearningError):
    """A system of equations has no stable solution."""
