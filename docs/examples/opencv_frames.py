"""Print what the fleet's model says of each frame of a camera or a film.

It needs `pip install opencv-python-headless`.

    python opencv_frames.py AGENT-HOME 0
    python opencv_frames.py AGENT-HOME film.mp4
"""

import sys

import cv2

import fleetledger

home, source = sys.argv[1:]
video = cv2.VideoCapture(int(source) if source.isdecimal() else source)
with fleetledger.active_model(home) as model:
    while True:
        there, frame = video.read()
        if not there:
            break
        answer = model.classify(frame[:, :, ::-1])  # OpenCV gives blue first
        print(f"{answer.name} {answer.score:.2f} {answer.doubt:.2f}", flush=True)
