"""Print what the fleet's model says of each frame that a pipe brings, as red, green and blue bytes.

    gst-launch-1.0 -q v4l2src ! videoconvert ! videoscale ! \
        video/x-raw,format=RGB,width=640,height=480 ! fdsink fd=1 | \
        python pipe_of_frames.py AGENT-HOME 640 480

GStreamer fills the lines of a frame up to four bytes: let the width be a multiple of four.
"""

import sys

import numpy as np

import fleetledger

home, width, height = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
size = width * height * 3
with fleetledger.active_model(home) as model:
    while len(data := sys.stdin.buffer.read(size)) == size:
        answer = model.classify(np.frombuffer(data, np.uint8).reshape(height, width, 3))
        print(f"{answer.name} {answer.score:.2f} {answer.doubt:.2f}", flush=True)
