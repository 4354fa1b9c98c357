"""torchvision's modules for tests, also where its compiled operators do not load."""

import pytest


def torchvision_module(name: str):
    """Return torchvision's module; skip the test where torchvision is not installed."""
    from fleetledger.export.torchvision_network import torchvision_module as find

    try:
        return find(name)
    except ImportError:
        pytest.skip("torchvision is not installed")
