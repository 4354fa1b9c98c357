"""The pooled reference uses the very features of the fleet."""

from pathlib import Path

import numpy as np
from PIL import Image

from export.backbone import import_backbone
from export.frozen import build_frozen
from export.runtime import LoadedModel
from learning.numerics.counter_generator import integer_map
from learning.numerics.preprocessing import preprocess
from methods.stsa.settings import StsaSettings
from simulator.datasets.digits import load_digits
from simulator.demo.homes import method_settings
from simulator.demo.material import digits_material
from simulator.demo.plan import make_plan
from simulator.demo.settings import DemoSettings
from simulator.demo.yardstick import integer_features, measure_pooled


def test_numpy_gives_the_features_that_the_frozen_onnx_model_gives():
    settings, material = StsaSettings(map_width=200, map_seed=5), digits_material(seed=0)
    preprocessing = material.preprocessing
    some = load_digits().take(np.arange(40))
    backbone = import_backbone(material.backbone, preprocessing)
    frozen = build_frozen(backbone.model, "integer", integer_map(5, 64, 200), feature_bits=7)
    batch = np.stack([preprocess(Image.fromarray(image), preprocessing) for image in some.images])
    (on_device,) = LoadedModel(frozen).run({preprocessing.input_name: batch}).values()
    assert np.array_equal(integer_features(some, material, settings), on_device)
    assert on_device.max() == 127


def test_the_reference_learns_the_digits():
    material = digits_material(seed=0)
    demo = DemoSettings(Path("unused"))
    settings = StsaSettings.model_validate(method_settings(demo))
    accuracy = measure_pooled(material, make_plan(material.split, demo), settings)
    assert len(accuracy) == 5
    assert min(accuracy) > 0.97
