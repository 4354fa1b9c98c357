"""The error tree of learning, which stands alone because learning knows no messages.

LearningError      everything this package raises on purpose
└── ImageError     a picture cannot be read
"""

from __future__ import annotations


class LearningError(Exception):
    """Base of this package's errors; names what is wrong, the value and the way out."""


class ImageError(LearningError):
    """A picture cannot be read: too large, torn, of an unknown format or depth."""
