import pytest

from laconic import FedOnce
from laconic.deploy.execute import simulate, train
from laconic.testing import small_federation


@pytest.mark.parametrize("run", [simulate, train])
@pytest.mark.parametrize(
    ("method", "said"),
    [("FedOnce", r"such as FedOnce\(\), not 'FedOnce'"), (FedOnce, r"such as FedOnce\(\), not the class FedOnce")],
)
def test_a_name_or_a_class_in_place_of_settings_is_refused(run, method, said):
    with pytest.raises(TypeError, match=said):
        run(method, small_federation("binary"))


def test_rows_that_are_no_federation_are_refused():
    with pytest.raises(TypeError, match=r"what laconic\.federation\(\.\.\.\), .* gives, not a dict"):
        simulate(FedOnce(), {"bank": 1})
