"""Files that other makers' own tools wrote are answered as by plain ONNX Runtime, or refused.

What is refused comes in when its sentences are followed, or names what to export otherwise.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from fleetledger.export.errors import ExportError
from tests.export.other_tools import NAMES, REFUSED, ROUNDED, TOLERANCE, file_of, plain, taken
from tests.export.test_makers_exports import on_a_device


@pytest.mark.parametrize("name", NAMES)
def test_a_device_answers_as_plain_onnx_runtime_or_the_refusal_leads_there(
    name: str, tmp_path: Path
) -> None:
    refused = REFUSED.get(name)
    if refused is not None and refused.is_final:
        with pytest.raises(ExportError, match=f"(?s){refused.words}"):
            taken(name)
        return
    found = taken(name)
    if refused is not None:
        assert any(re.search(f"(?s){refused.words}", words) for words in found.refusals)
    model = onnx.load_from_string(file_of(name))
    inputs, shares, _ = on_a_device(model, found.wanted, tmp_path)
    expected = plain(name, inputs, found.wanted.output)
    np.testing.assert_allclose(shares, expected, atol=ROUNDED.get(name, TOLERANCE))


def test_there_are_as_many_as_the_docs_say() -> None:
    page = Path(__file__).parents[2] / "docs" / "push-models.md"
    assert f"{len(NAMES)} files" in page.read_text(encoding="utf-8")
    assert set(REFUSED) <= set(NAMES)
