"""What the whole fleet was to run, as a stack: a push to all goes on top, going back takes it off.

Models that some devices were to try never lie on it. Going back is no push: who goes back twice
comes two models further down, not to where the first step left from.
"""

from __future__ import annotations

from collections.abc import Sequence


def after_push(stack: Sequence[int], version: int) -> list[int]:
    """Return the stack after all devices were told to run a version; oldest first."""
    return [*stack] if stack and stack[-1] == version else [*stack, version]


def after_return(stack: Sequence[int], version: int) -> list[int]:
    """Return the stack after all devices went back to a version: what lay above it is gone.

    One that does not lie below the top is put on top.
    """
    below = [place for place, earlier in enumerate(stack[:-1]) if earlier == version]
    return [*stack[: below[-1] + 1]] if below else after_push(stack, version)


def earlier(stack: Sequence[int]) -> tuple[int, ...]:
    """Return the versions that all devices can go back to, the nearest first, each once."""
    if not stack:
        return ()
    return tuple(dict.fromkeys(version for version in reversed(stack) if version != stack[-1]))
