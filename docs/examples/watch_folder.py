"""Print what the fleet's model says of each picture that comes into a folder.

    python watch_folder.py AGENT-HOME FOLDER

Move files into the folder when they are whole.
"""

import sys
import time
from pathlib import Path

import fleetledger

home, folder = map(Path, sys.argv[1:])
seen: set[Path] = set()
with fleetledger.active_model(home) as model:
    while True:
        for picture in sorted(set(folder.glob("*.[jp][pn]g")) - seen):
            answer = model.classify(picture)
            print(f"{picture.name} {answer.name} {answer.doubt:.2f}", flush=True)
            seen.add(picture)
        time.sleep(0.2)
