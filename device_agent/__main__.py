"""`python -m fleetledger.device_agent HOME`: the agent without a command line, which costs memory.

`fleetledger agent run` ends up here.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fleetledger.runtime.exit_codes import ExitCode

ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""A BLAS reserves memory for every thread; these must be set before NumPy is imported."""


def main(arguments: list[str]) -> int:
    """Run the agent whose home is the one argument; return the exit code."""
    for name in ONE_THREAD:
        os.environ.setdefault(name, "1")
    from fleetledger.device_agent.program.main import run_agent  # noqa: PLC0415 - after the above
    from fleetledger.runtime.errors import FleetledgerError  # noqa: PLC0415 - as above
    from fleetledger.runtime.log_setup import logging_on  # noqa: PLC0415
    from fleetledger.runtime.shown_commands import ON_DEVICES, remember_home, with_homes  # noqa: PLC0415

    if len(arguments) != 1:
        sys.stderr.write("usage: python -m fleetledger.device_agent HOME\n")
        return ExitCode.USAGE
    try:
        with logging_on():
            run_agent(remember_home(ON_DEVICES, Path(arguments[0])))
    except FleetledgerError as error:
        if os.environ.get("FLEETLEDGER_DEBUG") == "1":
            raise
        sys.stderr.write(f"fleetledger: {with_homes(str(error))}\n")
        return ExitCode.FAILED
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
