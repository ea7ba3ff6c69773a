"""Names of before are understood for one version, and one line names the new one."""

import warnings

import pytest
from click.testing import CliRunner

import laconic
from laconic.cli import main
from laconic.errors import PlanError
from laconic.moved import RenamedWarning, with_current_names


def test_a_plan_with_an_old_name_is_read_with_one_line():
    text = 'method = {type = "FedOnce", encoder = {type = "Suited", dim = 4}}\ndata.name = "breast_cancer"\n'
    with pytest.warns(RenamedWarning, match="Suited is now called BestEncoder"):
        plan = laconic.read_plan(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert laconic.read_plan(laconic.write_plan(plan)) == plan


def test_an_old_name_on_the_command_line_is_one_line_of_its_own():
    # Changed twice, so that the old name is met more than once.
    words = ["plan", "OneShot", "--data", "breast_cancer", "--set", "method.head.type=Added", "--seed", "3"]
    done = CliRunner().invoke(main, [*words, "--set", "method.head.type=Added"])
    assert done.exit_code == 0
    assert 'type = "SummedHeads"' in done.stdout
    assert done.stderr == "Note: Added is now called SummedHeads; the old name is understood until the next version\n"


def test_a_name_that_never_was_is_refused_as_before():
    with pytest.raises(PlanError, match="Siuted"):
        laconic.read_plan('method = {type = "FedOnce", encoder.type = "Siuted"}\ndata.name = "digits"\n')


def test_saved_settings_are_read_without_a_word():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert with_current_names({"net": {"type": "Several"}, "more": [{"type": "Mlp"}]}) == {
            "net": {"type": "Ensemble"},
            "more": [{"type": "Mlp"}],
        }
