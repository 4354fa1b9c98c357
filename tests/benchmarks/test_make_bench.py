"""`make bench` runs every benchmark, wherever its folder lies."""

import re
import subprocess

from tests.test_architecture import ROOT


def test_every_benchmark_but_that_of_a_gpu_is_run() -> None:
    said = subprocess.run(
        ["make", "--dry-run", "bench"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"for claim in (.*?);", said)
    assert found is not None
    there = (path.parent for path in (ROOT / "benchmarks").rglob("run.py"))
    names = {".".join(folder.relative_to(ROOT / "benchmarks").parts) for folder in there}
    assert set(found[1].split()) == names - {"gpu"}
