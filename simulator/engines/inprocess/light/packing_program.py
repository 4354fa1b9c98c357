"""The program that packs lots of answers: `python -m` this module, with files that it inherits.

Its argument is the number of a pipe. A message in: the number of an open file, and the sizes of the
answers in it, one after the other. A message out: what is said of each. It ends when the pipe does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from itertools import accumulate
from multiprocessing.connection import Connection

from simulator.engines.inprocess.light.packing import packed, told


def main() -> None:
    """Pack lots until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever sends the lots ends the pipe
    pipe = Connection(int(sys.argv[1]))
    with suppress(EOFError, ConnectionError):
        while True:
            pipe.send_bytes(json.dumps(_packed(*json.loads(pipe.recv_bytes()))).encode())


def _packed(file: int, sizes: list[int]) -> list[list[object]]:
    starts = [0, *accumulate(sizes)]
    bodies = (os.pread(file, *place) for place in zip(sizes, starts, strict=False))
    return [told(packed(body)) for body in bodies]


if __name__ == "__main__":
    main()
