"""The program that trains devices beside the engine: `python -m` this module.

Works are `workers.Work`, pickled by the engine of the same run; so is what comes back. It computes
on one thread, as the engine does beside it, so that it does not matter who trains whom.
"""

from __future__ import annotations

import pickle

from simulator.engines.inprocess.light.programs import serve
from simulator.engines.inprocess.light.workers import Worker


def main() -> None:
    """Serve until the engine ends."""
    worker = Worker()

    def answer(parts: list[bytes]) -> bytes:
        (work,) = parts
        return pickle.dumps(worker.do(pickle.loads(work)))  # noqa: S301 - from our own engine

    serve(answer)


if __name__ == "__main__":
    main()
