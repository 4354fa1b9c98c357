"""The floor: a loop over agents, each of which gets the weights and returns other ones.

python bare_numpy.py AGENTS FLOATS ROUNDS
"""

from __future__ import annotations

import sys

import numpy as np
from telling import STEP, mark, numbers, tell


def main() -> None:
    """Run the rounds."""
    agents, floats, rounds = numbers(sys.argv[1:])
    weights = np.zeros(floats, np.float32)
    marks = [mark()]
    for _ in range(rounds):
        total = np.zeros(floats, np.float64)
        for _ in range(agents):
            received = weights.copy()
            total += received + np.float32(STEP)
        weights = (total / agents).astype(np.float32)
        marks.append(mark())
    assert np.allclose(weights, rounds * STEP, rtol=1e-3)
    tell(marks, ["numpy"], {})


if __name__ == "__main__":
    main()
