"""Models saved by every format there was still load, and predict what they predicted then, or are refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from laconic.inference.bundle_files import FORMAT
from laconic.inference.predict import load_model

SAVED = Path(__file__).parent / "saved"


@pytest.mark.parametrize("number", range(1, FORMAT + 1))
def test_a_model_of_each_format_predicts_what_it_did(number, tmp_path):
    shutil.copytree(SAVED / f"format{number}", tmp_path / "model")
    model = load_model(tmp_path / "model")
    expected = json.loads((SAVED / f"format{number}.json").read_text())
    found = model.predict_stored(list(expected)).predictions
    # Another processor may round matrix products otherwise.
    assert np.allclose(found, list(expected.values()), atol=1e-4)
