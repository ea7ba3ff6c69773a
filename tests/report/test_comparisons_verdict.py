import pytest

from laconic import Equal, FedOnce, deal, load, simulate
from laconic.core import steps_of
from laconic.learn import Sgd
from laconic.methods import methods
from laconic.report.comparisons import comparisons_of, difference, role_of, sentences
from tests.report.results import alone, paid, pooled, release, result

GRADIENTS = "gradients of the loss at its outputs for one batch, from which labels can be read"


def part(*results):
    (found,) = comparisons_of(results)
    return found


def leaky(kind="SplitNN", score=0.98, **changes):
    given = release(party="bank", to="peers", words=GRADIENTS)
    return result(kind, score, releases=(release(), given), **changes)


def several(make, scores, **changes):
    return [make(score=score, seed=seed, **changes) for seed, score in enumerate(scores)]


def test_without_a_federated_method_nothing_is_said_but_that():
    assert "No federated method" in " ".join(sentences(part(alone(), pooled())))


def test_the_verdict_says_what_to_use_what_it_costs_and_who_sees_what():
    said = sentences(part(alone(0.9), result(score=0.98), leaky(score=0.981, up=143_000, rounds=80), pooled(1.0)))
    assert said[0].startswith("Use FedOnce: AUC 0.9800 for 1.4 kB in 1 round, then 32 B per prediction, the least of")
    assert said[0].endswith("; labels stay where they are; bank gets from shop, open: a few numbers a row.")
    assert "FedOnce goes 80 % of the way" in said[1]
    assert said[2] == "SplitNN has AUC 0.9810 for 100 times the bytes, in 80 rounds, and gives labels away."


def test_a_single_run_recommends_nothing():
    one = part(result(score=0.98))
    said = " ".join(sentences(one))
    assert said.startswith("A single run recommends nothing: FedOnce has AUC 0.9800 for 1.4 kB in 1 round")
    assert "Use" not in said
    assert role_of(one, one.arms[0]) == "the only one"


def test_a_single_run_beside_yardsticks_recommends_nothing_but_says_what_was_gained():
    one = part(alone(0.8), leaky(score=0.95), pooled(1.0))
    said = sentences(one)
    assert said[0].startswith("A single run recommends nothing: SplitNN has AUC 0.9500 for")
    assert "gives labels away to shop" in said[0]
    assert "SplitNN adds 0.1500 AUC (one seed does not say how sure that is: add --seeds 3)" in said[1]
    assert "--seeds 3" in said[2]
    assert (one.recommended, role_of(one, one.chosen)) == (None, "the only one")
    assert not any(sentence.startswith("Use") for sentence in said)


def test_several_seeds_of_one_method_alone_recommend_nothing_either():
    assert "recommends nothing" in sentences(part(*several(result, (0.9, 0.95))))[0]


def test_a_method_that_gives_labels_away_is_not_recommended_without_saying_so_in_that_sentence():
    compared = part(*several(alone, (0.8, 0.81)), *several(leaky, (0.95, 0.94)), *several(pooled, (1.0, 0.99)))
    advice = [one for one in sentences(compared) if "SplitNN" in one and "use" in one.lower()]
    assert advice
    assert all("gives labels away to shop" in one for one in advice)
    assert role_of(compared, compared.chosen) == "best trade, but gives labels away"


def test_of_equally_good_methods_one_that_keeps_labels_is_used_though_it_sends_more():
    compared = part(alone(0.8), pooled(1.0), leaky(score=0.95, up=100), result(score=0.95, up=90_000))
    assert compared.recommended.label == "FedOnce"


def test_the_best_that_keeps_labels_is_named_beside_one_that_does_not():
    said = sentences(part(alone(0.8), leaky(score=0.95), result(score=0.9), pooled(1.0)))
    assert said[0].startswith("SplitNN gives labels away to shop, and no method here that keeps labels scores as well:")
    assert any(one.startswith("With labels kept, FedOnce has AUC 0.9000 for 1.4 kB") for one in said)


def test_the_gain_is_over_being_alone_with_the_standard_error_of_the_differences_by_seed():
    runs = several(alone, (0.80, 0.84, 0.82)) + several(result, (0.85, 0.91, 0.87))
    compared = part(*runs)
    found = difference(compared.chosen, compared.alone)
    # Differences 0.05, 0.07, 0.05: mean 0.0567, standard deviation 0.01155, over the root of 3.
    assert (found.value, found.error) == (pytest.approx(0.05667, abs=1e-5), pytest.approx(0.00667, abs=1e-5))
    assert "FedOnce adds 0.0567 AUC (standard error 0.0067, from 3 seeds)" in " ".join(sentences(compared))


def test_if_no_method_beats_being_alone_by_its_standard_error_a_federation_is_not_worth_it():
    runs = several(alone, (0.80, 0.84, 0.82)) + several(result, (0.81, 0.83, 0.83))
    compared = part(*runs)
    said = sentences(compared)
    assert said[0].startswith("On this evidence a federation is not worth it: no method beats bank alone (AUC 0.8200")
    assert "FedOnce, adds 0.0033 AUC (standard error 0.0067, from 3 seeds)" in said[0]
    assert not any(one.startswith("Use") for one in said)
    assert (compared.recommended, role_of(compared, compared.chosen)) == (None, "not worth it here")


def test_with_one_seed_the_standard_error_is_from_the_same_resamples_of_the_rows():
    shared = [0.01 * ((7 * at) % 10) for at in range(50)]
    own = [0.001 * ((3 * at) % 5) for at in range(50)]
    ours = result(score=0.9, resampled=tuple(0.85 + a + b for a, b in zip(shared, own, strict=True)))
    theirs = alone(0.89, resampled=tuple(0.84 + a for a in shared))
    found = difference(part(ours).arms[0], part(theirs).arms[0])
    # What both share drops out: the spread of 0 to 0.004 in five equal steps is left.
    assert found.error == pytest.approx(0.00143, abs=2e-5)
    assert "resampling the rows scored on (one seed)" in " ".join(sentences(part(ours, theirs)))


def test_with_one_seed_and_no_resamples_the_uncertainty_is_said_to_be_unknown():
    said = " ".join(sentences(part(alone(0.8), result(score=0.95), pooled(1.0))))
    assert "one seed does not say how sure that is: add --seeds 3" in said


def test_without_the_party_alone_nobody_claims_that_a_federation_pays():
    said = " ".join(sentences(part(result(score=0.95), result("Rap", 0.9), pooled(1.0))))
    assert "Whether a federation is worth it was not measured: bank alone was not run" in said


def test_where_parties_have_other_rows_nobody_is_called_the_label_holder():
    apart = {"data": {"name": "people", "kind": "horizontal"}, "hub": "server", "parties": ("server", "a", "b")}
    runs = (result("SoloRows", 0.8, up=0, **apart), result("FedAvg", 0.9, **apart), pooled(1.0, **apart))
    said = " ".join(sentences(part(*runs)))
    assert "Alone, a party has AUC 0.8000; FedAvg adds 0.1000 AUC" in said
    assert "with all rows pooled it would be 1.0000" in said


def test_the_verdict_names_what_is_cheaper_and_still_worth_it():
    runs = (alone(0.8), result("Thrifty", 0.9, up=100), result("Best", 0.99, up=900), pooled(1.0))
    assert sentences(part(*runs))[-1] == "For fewer bytes, Thrifty has AUC 0.9000: 130 B in 1 round."


def test_the_verdict_names_the_best_with_a_price_and_what_that_leaves_open():
    private = result(score=0.93, method={"type": "FedOnce"}, privacy=paid())
    said = sentences(part(alone(0.9), result(score=0.98), private, pooled(1.0)))
    assert said[-1].startswith("With a privacy price, FedOnce, epsilon 2 has AUC 0.9300, beside 1 open release that")


KEEP_LABELS = {"Solo", "Linear", "Centralised", "LocalDp"}


VERTICAL = sorted(name for name, kind in methods().items() if kind().kind == "vertical" and name != "FedOnce")


@pytest.mark.parametrize("name", VERTICAL)
def test_the_words_of_every_vertical_method_say_whether_it_gives_labels_away(name):
    method = methods()[name]()
    released = tuple(
        release(words=words, to=to)
        for said in steps_of(method).values()
        for to, words in (("peers", said.takes), ("hub", said.gives))
        if words
    )
    found = result(hub="server" if method.server else "bank", releases=released).label_leaks
    assert bool(found) is (name not in KEEP_LABELS)


def test_runs_on_the_same_rows_are_resampled_by_the_same_draw():
    federation = deal(load("breast_cancer"), Equal(parties=2))
    one, same = (simulate(kind(), federation, seed=0) for kind in (methods()["Solo"], methods()["Solo"]))
    other = simulate(methods()["FedOnce"](), federation, seed=0)
    assert one.resampled == same.resampled
    assert len(one.resampled) == len(other.resampled) == 200
    spread = max(other.resampled) - min(other.resampled)
    assert 0 < spread < 0.2


def test_fedonce_gives_labels_away_only_if_it_goes_on_by_split_learning():
    federation = deal(load("breast_cancer"), Equal(parties=2))
    once, more = (simulate(FedOnce(more=more), federation, seed=0) for more in (None, Sgd(epochs=1)))
    assert [bool(part(one).arms[0].label_leaks) for one in (once, more)] == [False, True]


def test_what_the_recommended_method_lets_leave_is_said_whole():
    words = " ".join(said for said in (steps_of(FedOnce())["learn_and_send"].gives,) if said)
    given = result(score=0.98, releases=(release(words=words),))
    assert sentences(part(alone(0.9), given, pooled(1.0)))[0].endswith(f"bank gets from shop, open: {words}.")
