"""Measure SHA-256, as payloads are named, beside BLAKE3, from 1 KB to 10 MB.

    pip install blake3
    python -m benchmarks.speed.payload_digests.run [--turns 9] [--out FILE]

Without blake3 SHA-256 and BLAKE2b are measured alone. Ways take turns; a ratio is of one turn.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.machine import describe_machine

RESULTS = Path(__file__).resolve().parents[2] / "results" / "payload_digests.json"
SIZES = (1_000, 10_000, 40_000, 100_000, 1_000_000, 4_000_000, 10_000_000)
"""Bytes; 40 KB and 4 MB are answers of 10,000 and 1,000,000 float32."""
_AT_ONCE = 8_000_000
"""Bytes of different payloads, more than a core's cache holds."""
_IN_A_TURN = 20_000_000

Way = Callable[[bytes], bytes]


def ways() -> dict[str, Way]:
    """Return how a digest is made, by name."""
    found: dict[str, Way] = {
        "sha256": lambda data: hashlib.sha256(data).digest(),
        "blake2b": lambda data: hashlib.blake2b(data, digest_size=32).digest(),
    }
    if find_spec("blake3") is None:
        sys.stdout.write("blake3: not installed; pip install blake3\n")
        return found
    from blake3 import blake3

    found["blake3"] = lambda data: blake3(data).digest()
    found["blake3, two threads"] = lambda data: blake3(data, max_threads=2).digest()
    return found


def measure(size: int, turns: int) -> dict[str, Any]:
    """Return microseconds of a digest for each way, and their ratio to SHA-256."""
    data = [os.urandom(size) for _ in range(max(1, min(64, _AT_ONCE // size)))]
    again = max(1, _IN_A_TURN // (size * len(data)))
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in ways()}
    for _ in range(turns):
        for name, way in ways().items():
            wall, process = time.perf_counter(), time.process_time()
            for _ in range(again):
                for one in data:
                    way(one)
            each = 1e6 / (again * len(data))
            took = (time.process_time() - process, time.perf_counter() - wall)
            spent[name].append((took[0] * each, took[1] * each))
    base = spent["sha256"]
    return {
        name: {
            "processor_us": round(statistics.median(one[0] for one in own), 2),
            "wall_us": round(min(one[1] for one in own), 2),
            "sha256_is_slower": spread([s[0] / o[0] for s, o in zip(base, own, strict=True)]),
        }
        for name, own in spent.items()
    }


def spread(values: list[float]) -> list[float]:
    """Return median, least and most."""
    return [round(one, 2) for one in (statistics.median(values), min(values), max(values))]


def table(found: dict[str, Any]) -> str:
    """Return the sizes as Markdown."""
    names = list(next(iter(found.values())))
    head = ("bytes", *(f"{name}, us of the processor" for name in names), "SHA-256 to BLAKE3")
    rows = [head, ["---"] * len(head)]
    for size, by_name in found.items():
        ratio = by_name.get("blake3", {}).get("sha256_is_slower")
        told = "-" if ratio is None else f"{ratio[0]} ({ratio[1]} to {ratio[2]})"
        spent = [str(by_name[name]["processor_us"]) for name in names]
        rows.append([f"{int(size):,}", *spent, told])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    found = {str(size): measure(size, arguments.turns) for size in SIZES}
    packages = ["blake3"] if find_spec("blake3") else []
    import ssl

    machine = {**describe_machine(*packages), "openssl": ssl.OPENSSL_VERSION}
    result = {"claim": "payload_digests", "machine": machine, "sizes": found}
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(table(found))


if __name__ == "__main__":
    main()
