"""The program that packs lots of answers: `python -m` this module, started by `programs.Program`.

A work is the answers of a lot, what comes back is JSON of what is said of each.
"""

from __future__ import annotations

import json

from simulator.engines.inprocess.light.packing import packed, told
from simulator.engines.inprocess.light.programs import serve


def _answer(bodies: list[bytes]) -> bytes:
    return json.dumps([told(packed(body)) for body in bodies]).encode()


if __name__ == "__main__":
    serve(_answer)
