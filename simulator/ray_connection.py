"""A cluster of Ray: connected to, or started for a run on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from fleetledger.runtime.pip_command import pip_install
from fleetledger.simulator.errors import EngineError

LOCAL = "local"
"""The address of a cluster that is started on this machine."""
Result = TypeVar("Result")


class RayCluster:
    """A connection; whoever made it ends it, and the cluster if it was started with it."""

    def __init__(self, address: str = LOCAL, cpus: int | None = None) -> None:
        """Connect; `cpus` are those of a cluster that is started. Raises `EngineError`."""
        self.ray = _imported()
        self._is_own = not self.ray.is_initialized()
        if not self._is_own:
            return
        room = {"num_cpus": cpus, "include_dashboard": False} if address == LOCAL else {}
        try:
            self.ray.init(address=address, log_to_driver=False, configure_logging=False, **room)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            where = "this machine" if address == LOCAL else address
            raise EngineError(
                f"engine.address: no cluster of Ray at {where}: {error}; start one by `ray start "
                "--head`, or leave the address out"
            ) from error

    def task(self, function: Callable[..., Result], cpus: float) -> Callable[..., Future[Result]]:
        """Return what has a function called somewhere on the cluster."""
        remote = self.ray.remote(num_cpus=cpus, max_retries=1)(function)

        def begin(*given: Any) -> Future[Result]:  # noqa: ANN401 - the function's
            asked: Future[Result] = remote.remote(*given).future()
            return asked

        return begin

    def close(self) -> None:
        """End the connection."""
        if self._is_own:
            self.ray.shutdown()


def _imported() -> Any:  # noqa: ANN401 - a module
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a run tells nobody of itself
    try:
        import ray  # noqa: PLC0415 - of the extra `ray`
    except ImportError as error:
        raise EngineError(f"engine.kind: 'ray' needs Ray; `{pip_install('ray')}`") from error
    return ray
