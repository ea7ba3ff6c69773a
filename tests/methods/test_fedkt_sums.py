"""FedKT's votes under secure sums: noisy totals are all that the server sees; who drops out; what it costs."""

from collections.abc import Iterator

import numpy as np
import pytest

from laconic import Dirichlet, check_method, deal_rows, load, price, simulate, train
from laconic.core import Peers, WireLog, decode, decode_question
from laconic.deploy import Recorder, ledgers_of, open_calls, roles
from laconic.errors import PartyAbsent
from laconic.learn import Logistic
from laconic.methods import SecureSums
from laconic.methods.horizontal.fedkt import FedKt
from laconic.privacy import L0, L1, Budget, GaussianVotes, Sure, epsilon_of
from laconic.testing import small_horizontal

BINARY = small_horizontal("binary")
QUIET = L1(noise=GaussianVotes(sigma=0.1), secure=False)


def votes(**settings):
    usual = {"model": Logistic(), "teachers": 2, "level": QUIET, "sums": SecureSums()}
    return FedKt(**(usual | settings))


@pytest.mark.slow
def test_keeps_the_contract_under_masks():
    check_method(votes(labels=40), BINARY)


def test_with_little_noise_the_model_is_as_good_as_where_the_server_sees_students():
    seen, hidden = simulate(votes(sums=None), BINARY), simulate(votes(), BINARY)
    assert hidden.metrics["accuracy"] > seen.metrics["accuracy"] - 0.03
    assert hidden.metrics["accuracy"] > 0.85


def test_no_student_leaves_and_what_leaves_looks_random():
    recorder = Recorder()
    result = simulate(votes(), BINARY, runtime=recorder)
    given = {one.step: one for one in result.releases if one.party == "party1"}
    assert {"agree_keys", "share_secrets", "give_votes", "unmask"} <= given.keys()
    assert "give_students" not in given
    assert "hidden in a sum over 3 parties" in given["give_votes"].words
    assert given["give_votes"].noise.unit == "all rows of one party, replaced by others"
    assert "each a share" in given["give_votes"].covered
    sent = [decode(blob) for _, step, way, blob in recorder.crossings if (step, way) == ("give_votes", "up")]
    numbers = np.concatenate(sent)
    assert numbers.dtype == np.uint64
    # Bare votes are 0, 1 or 2 steps apart by the billion: masked, half of all are in the upper half of 64 bits.
    assert abs(np.mean(numbers > 2**63) - 0.5) < 0.05


def test_the_noise_on_the_total_is_at_least_what_is_priced():
    method = votes(level=L1(noise=GaussianVotes(sigma=50.0)), labels=60)
    totals = []
    original = SecureSums.over

    def spy(self, *args, **kwargs):
        found = original(self, *args, **kwargs)
        totals.append(found.parts["votes"])
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SecureSums, "over", spy)
        run = train(method, BINARY)
    # Votes are 0 to 6; a sample of 200 numbers has a spread within a fifth of the true one.
    assert totals[0].std() > 0.8 * 50.0
    result = run.result
    sent = next(one.noise for one in result.releases if one.step == "give_votes" and one.noise)
    assert (sent.scale, sent.count, sent.secure) == (50.0, 60, True)
    # By hand: 60 counts, each moved by the root of 2 for each of two students, under 50.
    assert price({"party1": ledgers_of(result)["party1"]}, 1e-5).epsilon == pytest.approx(
        epsilon_of(np.sqrt(60) * np.sqrt(2) * 2 / 50.0, 1e-5), rel=0.02
    )
    assert run.hub.memory["price"]["independent"] == pytest.approx(
        epsilon_of(np.sqrt(60) * np.sqrt(2) * 2 / 50.0, 1e-5)
    )


def test_the_final_model_costs_nothing_beside_the_votes():
    result = simulate(votes(), BINARY)
    final = next(one for one in result.releases if one.step == "final model")
    assert (final.noise.count, final.noise.once) == (0, True)


class Gone:
    """A carrier some of whose parties are gone from one step on."""

    def __init__(self, within, gone: tuple[str, ...], step: str) -> None:
        self._within, self._gone, self._step, self._off = within, gone, step, False
        self.names, self.ledgers = within.names, within.ledgers

    def carry(self, script, blobs, deadline) -> Iterator:
        self._off = self._off or any(decode_question(blob).step == self._step for blob in blobs.values())
        kept = {name: blob for name, blob in blobs.items() if not (self._off and name in self._gone)}
        yield from self._within.carry(script, kept, deadline)


def fitted_without(gone: tuple[str, ...], step: str, method):
    federation = deal_rows(load("breast_cancer"), Dirichlet(parties=5, beta=2.0), seed=3)
    hub, _, others = roles(method, federation, seed=0)
    with open_calls(others) as carrier:
        list(method.fit(hub, Peers(method, hub, Gone(carrier, gone, step), WireLog(), carrier.names)))
    x, y = hub.data.part("test")
    return hub, float(np.mean(method.model.predict(federation.task, hub.memory["model"], x).round() == y))


@pytest.mark.parametrize("step", ["share_secrets", "give_votes", "unmask"])
def test_a_party_missing_at_voting_is_left_out_and_the_others_still_vote(step):
    hub, right = fitted_without(("party2",), step, votes())
    # Who drops out after its votes came is in the total still.
    assert ("party2" in hub.memory["voted"]) == (step == "unmask")
    assert {"party1", "party3", "party4", "party5"} <= set(hub.memory["voted"])
    assert right > 0.8


@pytest.mark.parametrize("step", ["share_secrets", "give_students"])
def test_where_students_are_sent_a_party_missing_at_voting_does_not_vote(step):
    hub, right = fitted_without(("party2",), step, votes(sums=None, level=L0()))
    assert ("party2" in hub.memory["sent"]) == (step != "give_students")
    assert right > 0.8


def test_a_budget_is_kept_and_shared_people_pay_at_every_party():
    for people, copies in (("disjoint", 1), ("shared", 3)):
        wanted = Budget(epsilon=3.0, delta=1e-5, people=people)
        method = FedKt(model=Logistic(), teachers=2, level=L1(noise=GaussianVotes()), sums=SecureSums()).within(
            wanted, 100, "server", ("party1", "party2", "party3")
        )
        noise = method.expected_noise(100, "server", ("party1", "party2", "party3"))
        assert set(noise) == {"party1", "party2", "party3"}
        one = noise["party1"][0]
        assert 2.9 < epsilon_of(np.sqrt(one.count * copies) / one.multiplier, 1e-5) <= 3.0


@pytest.mark.parametrize("level", [L0(), L1(), L1(noise=GaussianVotes(sure=Sure()))], ids=["open", "L1", "sure"])
def test_sums_without_noise_that_adds_up_are_refused(level):
    with pytest.raises(ValueError, match=r"level = L1 with level.noise.type = GaussianVotes"):
        FedKt(level=level, sums=SecureSums())


def test_leaving_is_refused_as_another_vote_costs_as_much_again():
    run = train(votes(), BINARY)
    assert run.method.members(run.hub).keys() == {"party1", "party2", "party3"}
    with pytest.raises(ValueError, match="another vote"):
        run.method.take_out(run.hub, "party1")


def test_numbers_have_no_votes():
    with pytest.raises(ValueError, match="is a number, and L1 puts noise on votes for classes"):
        simulate(votes(), small_horizontal("regression"))


def test_too_few_parties_end_the_run_by_name():
    with pytest.raises(PartyAbsent, match="party2 and party3"):
        fitted_without(("party2", "party3"), "give_votes", votes())
