"""Which variants of a frozen part this device runs models on, by its owner's settings."""

from __future__ import annotations

from fleetledger.device_agent.errors import MissingError
from fleetledger.device_agent.models.execution.providers import CPU
from fleetledger.device_agent.models.inference.installed_model import describe_runtime
from fleetledger.device_agent.settings import ModelSettings
from fleetledger.schemas.variants import VariantName


def wanted_variants(settings: ModelSettings) -> tuple[VariantName, ...]:
    """Return the variants that are taken where a model has them, best first; none is the reference.

    For `auto` ONNX Runtime is asked what it was built for: what 8-bit integers with unsigned
    activations gain, they gain on a processor.
    """
    if settings.variant == "reference":
        return ()
    if settings.variant != "auto":
        return (settings.variant,)
    try:
        _, available = describe_runtime()
    except MissingError:
        return ()  # no model runs here before that is mended, and a restart
    on_gpu = any(name != CPU and name in available for name in settings.providers)
    return ("fp16",) if on_gpu else ("int8",)
