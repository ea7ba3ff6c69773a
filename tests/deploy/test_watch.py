"""A run that is watched: what is known of it while it goes on, and that watching changes nothing."""

import pytest

from laconic import FedOnce, SplitNN
from laconic.core import watching
from laconic.deploy import Faults, InProcess, Watch, simulate
from laconic.deploy.watch import STATE, read_state
from laconic.learn import LinearModel, Sgd
from laconic.testing import small_federation

QUICK = FedOnce(head=LinearModel())


@pytest.fixture(scope="module")
def federation():
    return small_federation("binary")


def test_a_watched_run_says_how_parties_bytes_and_scores_stand(federation):
    watch = Watch("SplitNN on small", ["shop"])
    with watching(watch):
        result = simulate(SplitNN(trainer=Sgd(epochs=2)), federation, seed=0, look_every=2, listener=watch.note)
    now = watch.state()
    assert now.bytes["fit"] == result.fit.bytes and now.rounds["fit"] == result.fit.rounds
    assert {one.state for name, one in now.parties.items() if name != "shop"} <= {"answered"}
    assert sum(one.bytes_up for one in now.parties.values()) == sum(
        getattr(result, phase).bytes_up for phase in ("align", "fit", "look", "final")
    )
    assert [one.value for one in now.scores] == [*(look.score.value for look in result.curve), result.score.value]
    assert [one.final for one in now.scores] == [False] * len(result.curve) + [True]
    assert now.progress["fitting"][0] > 0


def test_watching_changes_nothing_in_the_result(federation):
    alone = simulate(QUICK, federation, seed=0)
    with watching(Watch("FedOnce on small")):
        watched = simulate(QUICK, federation, seed=0)
    assert watched.predictions == alone.predictions and watched.wire == alone.wire


def test_a_party_that_does_not_answer_is_shown_as_absent(federation):
    watch, away = Watch("FedOnce on small"), next(name for name in federation.tables if name != federation.hub)
    with watching(watch):
        simulate(QUICK, federation, seed=0, runtime=InProcess(faults=Faults(absent=(away,))))
    assert watch.state().parties[away].state == "absent"


def test_a_run_in_another_process_is_followed_by_its_file(tmp_path):
    file = tmp_path / STATE
    assert read_state(file, "plan", ["shop"]).state == "waiting for parties"
    watch = Watch("run", ["shop"], file)
    watch.asked("fit", 1, "send_columns", ["shop"])
    for number in range(100):
        watch.note("fitting", number, 100)
    assert read_state(file, "plan", ["shop"]).progress.get("fitting", (0, 100))[0] < 99  # Not written at each.
    watch.end("finished")
    assert read_state(file, "plan", ["shop"]) == watch.state()
    assert file.stat().st_mode & 0o777 == 0o600
