"""`python -m fleetledger.export.judging_child`: take in the file that standard input brings.

The answer goes to the file that standard output is.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from fleetledger.export.backbone import import_backbone
from fleetledger.export.errors import ExportError
from fleetledger.export.golden import build_golden
from fleetledger.export.judging import MOST_ANSWERED
from fleetledger.export.judging_messages import (
    BackboneRequest,
    GoldenFile,
    GoldenRequest,
    ImportRefusal,
    JudgingRequest,
    written_answer,
)
from fleetledger.export.layers import backbone_with_features
from fleetledger.export.own_model import own_model
from fleetledger.export.runtime import describe_runtime
from fleetledger.learning.errors import LearningError
from fleetledger.runtime.child_limits import contain, limit
from fleetledger.runtime.errors import FleetledgerError

_NO_MEMORY = ("bad_alloc", "allocate", "out of memory")


def main() -> None:
    """Read a request, take the file in within its limits, write the answer."""
    answer_to = os.dup(1)
    os.dup2(2, 1)
    contain()
    request = JudgingRequest.read(sys.stdin.buffer.read())
    describe_runtime()  # loads the library before memory is counted
    limit(request.memory_bytes, request.seconds, file_bytes=MOST_ANSWERED)
    with os.fdopen(answer_to, "wb") as file:
        file.write(written_answer(_made(request)))


def _made(request: JudgingRequest) -> Any:  # noqa: ANN401 - what either kind of file becomes
    try:
        return _taken_in(request)
    except MemoryError:
        return ImportRefusal("ModelFileError", request.too_large)
    except (ExportError, FleetledgerError, LearningError) as error:
        if any(word in str(error) for word in _NO_MEMORY):
            return ImportRefusal("ModelFileError", request.too_large)
        return ImportRefusal(type(error).__name__, str(error))


def _taken_in(request: JudgingRequest) -> Any:  # noqa: ANN401 - as above
    wanted = request.wanted
    if isinstance(wanted, BackboneRequest):
        data = backbone_with_features(request.data, wanted.preprocessing, wanted.choice)
        return import_backbone(data, wanted.preprocessing, pool=wanted.pool)
    if isinstance(wanted, GoldenRequest):
        return GoldenFile(build_golden(request.data, wanted.preprocessing))
    return own_model(request.data, wanted)


if __name__ == "__main__":
    main()
