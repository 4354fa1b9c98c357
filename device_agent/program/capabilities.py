"""What this machine can run, as it is told with every birth."""

from __future__ import annotations

import platform
from importlib.util import find_spec

from fleetledger.device_agent.home.memory import total_bytes
from fleetledger.runtime.installed_version import installed_version
from fleetledger.runtime.registry import origins
from fleetledger.schemas.offers import HTTPS
from fleetledger.schemas.presence import MAX_FEATURES, Capabilities
from fleetledger.schemas.requirements import feature_of

OPTIONAL_FEATURES = ("numpy", "onnxruntime", "torch")
"""Packages whose presence decides which phases of which methods can run here."""

_GROUPS = ("fleetledger.methods", "fleetledger.networks")
"""Entry points of distributions that lineages may need on a device."""


def find_capabilities() -> Capabilities:
    """Say what this device can run, without importing it."""
    own = [HTTPS, *(name for name in OPTIONAL_FEATURES if find_spec(name) is not None)]
    others = sorted(feature_of(each.distribution, each.digest) for each in origins(*_GROUPS))
    return Capabilities(
        agent_version=installed_version(),
        python=platform.python_version(),
        machine=f"{platform.system()} {platform.machine()}",
        features=frozenset((*own, *others[: MAX_FEATURES - len(own)])),
        memory_mib=total_bytes() >> 20,
    )
