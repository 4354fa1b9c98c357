"""Reads many spoiled inputs, and tells what was accepted, refused, and how fast.

    python -m tests.fuzzing [--inputs 1000000] [--seed 1] [--parsers envelope,block]

Exits with 1 at the first input that is neither read nor refused, or that takes longer than its
length allows (see `worst.limit`), which it prints.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from random import Random

from tests.fuzzing.mutations import spoiled
from tests.fuzzing.parsers import Parser, parsers
from tests.fuzzing.worst import cost, limit

MEMORY_LIMIT = 2 << 30
"""Bytes of address space; a parser that wants more has believed a size that it was told."""
SUSPECT_SECONDS = 0.02
"""Processor time after which an input is measured; none that takes less is beyond its limit."""


def outcome(parser: Parser, data: bytes) -> bool:
    """Return whether an input was accepted; whatever is no refusal comes through."""
    try:
        parser.read(data)
    except parser.refuses:
        return False
    return True


def tried(parser: Parser, data: bytes) -> tuple[bool, float]:
    """Return whether an input was accepted, and its seconds of processor; raise if too many."""
    began = time.thread_time()
    accepted = outcome(parser, data)
    seconds = time.thread_time() - began
    if seconds > SUSPECT_SECONDS and cost(parser, data) > limit(len(data)):
        raise TimeoutError(f"{len(data)} bytes took {seconds:.2f} s of processor")
    return accepted, seconds


def main() -> int:
    """Run the command and return its exit code."""
    arguments = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    arguments.add_argument("--inputs", type=int, default=1_000_000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--parsers", default=",".join(parsers()))
    options = arguments.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    chosen = options.parsers.split(",")
    for name in chosen:
        parser, random = parsers()[name], Random(f"{name}/{options.seed}")
        began, accepted, number = time.perf_counter(), 0, options.inputs // len(chosen)
        slowest = 0.0
        for _ in range(number):
            data = spoiled(random, parser.good)
            try:
                read, seconds = tried(parser, data)
            except Exception as error:
                sys.stdout.write(f"{name}: {type(error).__name__}: {error}\n{data!r}\n")
                raise
            accepted += read
            slowest = max(slowest, seconds)
        rate = number / (time.perf_counter() - began)
        refused = number - accepted
        sys.stdout.write(
            f"{name:>10}: {refused} refused, {accepted} accepted, {rate:,.0f}/s, "
            f"slowest {1000 * slowest:.1f} ms\n"
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    sys.stdout.write(f"peak memory {peak} MiB; nothing else happened\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
