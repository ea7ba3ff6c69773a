"""The examples that need nothing but the package run, and show what they promise."""

import pytest

from examples import budget, hospitals, own_tables


@pytest.mark.slow
def test_a_model_of_two_tables_predicts_new_customers(tmp_path):
    assert own_tables.main(tmp_path) > 0.6


@pytest.mark.slow
def test_hospitals_do_better_together():
    solo, *between, pooled = hospitals.main()
    assert max(one.score.value for one in between) > solo.score.value
    assert pooled.fit.bytes > 0


@pytest.mark.slow
def test_a_budget_is_kept_and_says_first_what_it_does_not_cover(capsys):
    for result, most in zip(budget.main(), (1.0, 4.0), strict=True):
        assert result.privacy.epsilon <= most
    assert capsys.readouterr().out.startswith("not covered: ")


@pytest.mark.slow
def test_onnx_files_say_what_the_model_says(tmp_path):
    pytest.importorskip("onnxruntime", reason="needs pip install 'laconic-fl[onnx]'")
    from examples import export_onnx

    assert export_onnx.main(tmp_path) < 1e-5
