"""Learn what a camera shows, and say what the fleet's model makes of it, in one program.

    python camera_loop.py AGENT-HOME PICTURES

PICTURES has a folder for each class and stands for a camera and whoever names what it sees.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

import fleetledger as fl


def camera(pictures: Path) -> Iterator[tuple[np.ndarray, str]]:
    """Yield frames, uint8 (height, width, 3), red first, and what they show."""
    for path in sorted(pictures.glob("*/*.png")):
        yield np.asarray(Image.open(path).convert("RGB")), path.parent.name


home, pictures = map(Path, sys.argv[1:])
with fl.Agent(home) as agent:
    given = [agent.give(frame, label) for frame, label in camera(pictures)]
    print(f"given: {len(given)}, new: {sum(one.new for one in given)}", flush=True)
    agent.wait(received=given, version=1, timeout=600)
    for frame, label in camera(pictures):
        answer = agent.model.classify(frame)
        print(f"{label}: {answer.name} {answer.score:.2f} by model {answer.version}", flush=True)
