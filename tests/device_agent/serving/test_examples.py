"""The examples of the page on applications run as they stand."""

import subprocess
import sys
from pathlib import Path

from tests.device_agent import models
from tests.device_agent.serving.homes import ServingHome
from tests.test_architecture import ROOT


def test_the_watcher_follows_folder_and_model(tmp_path: Path) -> None:
    home, folder = ServingHome(tmp_path / "agent-home"), tmp_path / "pictures"
    folder.mkdir()
    home.switch(models.exported(1))
    script = ROOT / "docs" / "examples" / "watch_folder.py"
    command = [sys.executable, str(script), str(home.folder), str(folder)]
    environment = {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment
    ) as process:
        try:
            for name, flipped, expected in (("a", False, "dark"), ("b", True, "light")):
                if flipped:
                    home.switch(models.exported(2, flipped=True))
                (tmp_path / name).write_bytes(models.picture("dark"))
                (tmp_path / name).replace(folder / f"{name}.png")
                assert process.stdout.readline().startswith(f"{name}.png {expected} ")
        finally:
            process.kill()
