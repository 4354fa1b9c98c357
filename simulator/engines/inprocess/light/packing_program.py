"""The program that packs lots of answers: `python -m` this module, with files that it inherits.

A line in: the number of an open file, and the sizes of the answers in it, one after the other. A
line out: what is said of each. It ends when its input does.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import accumulate

from simulator.engines.inprocess.light.packing import packed, told


def main() -> None:
    """Pack lots until there are no more."""
    for line in sys.stdin.buffer:
        file, sizes = json.loads(line)
        starts = [0, *accumulate(sizes)]
        bodies = (os.pread(file, *place) for place in zip(sizes, starts, strict=False))
        sys.stdout.write(json.dumps([told(packed(body)) for body in bodies]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
