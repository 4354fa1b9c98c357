"""What a round's answers weigh in both forms, and how exactly the fleet's step is averaged.

bytes     of one answer, as it is made and packed as it travels; the mean over the agents
error     | mean - exact mean | / | exact mean - sent |, over all trained tensors, where the
          exact mean is that of the weights as they were trained
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.travelling import travelling_bytes
from fleetledger.learning.losses.composition import FIXED
from fleetledger.learning.networks.conversion import to_arrays
from fleetledger.learning.networks.plan import is_buffer
from fleetledger.learning.training.work import Trained, Work
from fleetledger.methods.training.client_updates import UpdateFrame
from fleetledger.methods.training.exchange import CountedUpdate
from fleetledger.methods.training.update_forms import FORMS, Upload

Arrays = Mapping[str, npt.NDArray[Any]]


def measure_uploads(
    works: Sequence[Work], heads: Sequence[Trained], bodies: Sequence[Trained]
) -> dict[Upload, dict[str, float]]:
    """Return what each form makes of the answers of agents that have trained both parts."""
    sent = to_arrays(works[0].parameters, works[0].frozen[FIXED], works[0].buffers)
    answers = [
        to_arrays(head.parameters, body.parameters, body.buffers)
        for head, body in zip(heads, bodies, strict=True)
    ]
    return {upload: _measured(UpdateFrame(sent, upload), answers) for upload in FORMS}


def _measured(frame: UpdateFrame, answers: Sequence[Arrays]) -> dict[str, float]:
    payloads = [frame.encode(arrays) for arrays in answers]
    packed = [travelling_bytes(payload) for payload in payloads]
    mean = frame.mean([CountedUpdate(1, partial(bytes, p)) for p in payloads], weighted=False)
    return {
        "bytes": round(float(np.mean([len(payload) for payload in payloads]))),
        "packed_bytes": round(float(np.mean(packed))),
        "error": float(f"{_relative_error(frame.sent, answers, mean.arrays):.2g}"),
    }


def _relative_error(sent: Arrays, answers: Sequence[Arrays], mean: Arrays) -> float:
    apart, step = 0.0, 0.0
    for name in mean:
        if not is_buffer(name):
            exact = np.mean([answer[name].astype(np.float64) for answer in answers], axis=0)
            apart += float(np.square(mean[name] - exact).sum())
            step += float(np.square(exact - sent[name]).sum())
    return sqrt(apart / step)
