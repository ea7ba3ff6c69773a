import pytest

from laconic.check import check_method, small_federation
from laconic.learn.sgd import Sgd
from laconic.methods.vertical.fedbcd import FedBCD
from laconic.methods.vertical.fedcvt import FedCVT
from laconic.methods.vertical.splitnn import SplitNN
from laconic.simulation import simulate

TRAINER = Sgd(epochs=3, batch=128, lr=1e-2)
SMALL = Sgd(epochs=5, batch=30, lr=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("method", [FedBCD(trainer=TRAINER), FedCVT(trainer=TRAINER)], ids=["FedBCD", "FedCVT"])
def test_the_baselines_keep_the_contract(method):
    check_method(method)


@pytest.mark.slow
@pytest.mark.parametrize("method", [FedBCD(trainer=SMALL), FedCVT(trainer=SMALL)], ids=["FedBCD", "FedCVT"])
def test_the_baselines_keep_the_contract_where_parties_share_few_rows(method, overlap):
    check_method(method, overlap)


def test_one_local_step_is_splitnn_exactly(cancer):
    one = simulate(FedBCD(local_steps=1, trainer=TRAINER), cancer)
    split = simulate(SplitNN(trainer=TRAINER), cancer)
    assert one.predictions == split.predictions


def test_more_local_steps_learn_more_from_the_same_bytes(overlap):
    """Plain descent with a small learning rate, so that five steps do go about five times as far."""
    trainer = Sgd(epochs=6, batch=30, lr=0.02, optimizer="sgd")
    split, several = (simulate(one, overlap) for one in (SplitNN(trainer=trainer), FedBCD(trainer=trainer)))
    assert several.fit.bytes == split.fit.bytes
    assert several.metrics["log_loss"] < split.metrics["log_loss"]


def test_fedcvt_sends_own_rows_and_says_so(overlap):
    split, cvt = (simulate(one, overlap) for one in (SplitNN(trainer=SMALL), FedCVT(trainer=SMALL)))
    assert 1.7 < cvt.fit.bytes / split.fit.bytes < 2.1
    words = {(release.party, release.step): release.words for release in cvt.releases}
    assert "people outside the overlap of all parties" in words["bank", "exchange"]


def test_fedcvt_without_own_rows_is_supervised(cancer):
    assert simulate(FedCVT(trainer=TRAINER), cancer).score.value > 0.95


def test_fedcvt_refuses_numbers():
    with pytest.raises(ValueError, match="pseudo-labels, which are classes"):
        simulate(FedCVT(trainer=TRAINER), small_federation("regression"))


@pytest.mark.parametrize(("kind", "wrong"), [(FedBCD, {"local_steps": 0}), (FedCVT, {"threshold": 1.5})])
def test_settings_without_meaning_are_refused(kind, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        kind(**wrong)
