"""The page on networks of one's own, whose blocks are a program that runs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulator.unrendered import without_pictures
from tests.test_architecture import ROOT

PAGE = ROOT / "docs" / "your-own-network.md"


@pytest.mark.torch
def test_the_blocks_of_the_page_train_export_and_see_inner_layers(tmp_path: Path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    network, run, method = blocks
    asked = run.replace('"name": "rounds"', '"name": "quiet"').replace(
        "runs/small_cnn", "runs/quiet"
    )
    assert asked.count("quiet") == 2
    program = tmp_path / "own.py"
    program.write_text("\n".join((network, run, method, asked)), encoding="utf-8")
    environment = {
        **without_pictures(ROOT / "src"),
        "FLEETLEDGER_CACHE": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [sys.executable, program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    heads = []
    for name in ("small_cnn", "quiet"):
        folder = tmp_path / "runs" / name / "seed-1"
        manifest = json.loads((folder / "model" / "manifest.json").read_text(encoding="utf-8"))
        assert manifest["class_names"] == ["0", "1", "2", "3"]
        assert manifest["feature_width"] == 4 * 8 + 1  # of width 8, and a one for the bias
        assert manifest["parity"]["agreement"] == 1
        heads.append(manifest["head"]["digest"])
    assert heads[0] != heads[1]
