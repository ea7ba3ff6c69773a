"""A row is perturbed once, whatever cut, group, look or saved model it is in; whatever is more is priced."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from laconic import LocalDp, VimSgd, load_model, save_model, train
from laconic.core import Entry, Ledger, Party, Question, decode, encode, unwrap
from laconic.deploy import Recorder
from laconic.inference import parts_of, reach_parts
from laconic.inference.predict import cut_name
from laconic.inference.server.party import Answerer
from laconic.learn import LinearModel
from laconic.privacy.accounting import price
from laconic.privacy.mechanisms.gaussian import LocalGaussian, compose, epsilon_of
from laconic.privacy.mechanisms.outputs import BatchClip, ClippedGaussian, PrivateSteps, RowsOnce
from laconic.privacy.row_releases import releases_of_rows
from laconic.tables import Column, Table

_DELTA, _SIGMA = 1e-5, 4.0
_ONCE = RowsOnce(clip=1.0, sigma=_SIGMA)


def _train(federation, privacy):
    return train(VimSgd(epochs=1, width=8, privacy=privacy), federation)


def _ids(table, cut):
    return table.keys[table.cut(cut)].tolist()


def _paid(ledger):
    return price({"party": ledger}, _DELTA).epsilon


def _drawn(times):
    return pytest.approx(epsilon_of(compose([2 / _SIGMA] * times), _DELTA), rel=0.02)


def _ask_in_groups(folder, federation, groups):
    """What the first peer says of each group, over one use of the saved model, and its ledger after it."""
    model, record, peer = load_model(folder), Recorder(), federation.peers[0]
    with reach_parts(model.part, parts_of(folder), dict(federation.tables), record) as carrier:
        for group in groups:
            model.ask(federation.tables[federation.hub], carrier, group)
        ledger = carrier.ledgers()[peer]
    up = [decode(blob) for name, _, way, blob in record.crossings if (name, way) == (peer, "up")]
    return [one for one in up if one.dtype.kind == "f"], ledger


def test_a_person_asked_for_in_many_groups_is_told_of_alike_and_pays_once(federation, tmp_path):
    save_model(_train(federation, _ONCE), tmp_path, ways=())
    first, *others = _ids(federation.tables[federation.hub], "test")[:20]
    told, ledger = _ask_in_groups(tmp_path, federation, [[first, other] for other in others])
    assert len({one[0].tobytes() for one in told}) == 1
    assert _paid(ledger) == _drawn(1)
    again, _ = _ask_in_groups(tmp_path, federation, [[others[3], first]])
    assert again[0][1].tobytes() == told[0][0].tobytes()


def test_training_rows_asked_for_again_when_a_model_is_saved_are_told_of_alike(federation, tmp_path):
    trained = _train(federation, _ONCE)
    before = unwrap(trained.method.give_outputs(trained.others[0], "train"))[0]
    save_model(trained, tmp_path, ways=())
    part = parts_of(tmp_path)[trained.others[0].name]
    assert _paid(part.ledger) == _drawn(1)
    ids = _ids(trained.others[0].data, "train")
    told, _ = _ask_in_groups(tmp_path, federation, [ids[7:9]])
    assert (told[0] == before[7:9]).all()


def test_training_rows_stay_noised_where_only_rows_to_be_predicted_are_open(federation, tmp_path):
    trained = _train(federation, RowsOnce(clip=1.0, sigma=_SIGMA, rows="training"))
    party = trained.others[0]
    before = unwrap(trained.method.give_outputs(party, "train"))[0]
    party.data = party.data.with_cut("mixed", np.concatenate([party.data.cut("train")[:2], party.data.cut("test")[:2]]))
    sent, noises = unwrap(trained.method.give_outputs(party, "mixed"))
    assert (sent[:2] == before[:2]).all()
    assert len(noises) == 2
    assert noises[1] is None


def _party(seed, ids=None, memory=None, ledger=None):
    raw = np.random.default_rng(seed).normal(size=(20, 3))
    columns = tuple(Column(name, "numeric") for name in "abc")
    cuts = {"train": np.arange(12), "test": np.arange(12, 20)}
    return Party("shop", Table(raw, columns, ids=ids, cuts=cuts, party="shop"), 0, memory, ledger)


def _release(protection, party, rows, at=None):
    at = party.data.cut(rows) if at is None else at
    values = party.data.x[at]
    return unwrap(protection.release(values, party, rows, at))


def _epsilon(noises):
    """The price of releases that bear these noises."""
    entries = (Entry(phase="fit", step="send", words="", form="", times=1, bytes=0, noise=one) for one in noises)
    ledger = Ledger()
    for entry in entries:
        ledger.write(entry)
    return _paid(ledger)


def test_rows_of_another_table_without_ids_cannot_be_known_again_and_pay_again():
    one = _party(0, memory={"secret": 1})
    noises = [_release(_ONCE, one, rows)[1][0] for rows in ("train", "test", "train")]
    assert _epsilon(noises) == _drawn(1)
    for count, seed in enumerate((1, 2), start=2):
        other = _party(seed, memory=one.memory)
        noises.append(_release(_ONCE, other, "test")[1][0])
        assert _epsilon(noises) == _drawn(count)


def test_a_row_with_other_cells_is_drawn_anew_and_pays_again_but_is_told_of_alike_when_they_are_back():
    ids = [f"p{place}" for place in range(20)]
    one = _party(0, ids, {"secret": 1})
    changed = _party(1, ids, one.memory)
    first, noises = _release(_ONCE, one, "test")
    second, more = _release(_ONCE, changed, "test")
    assert (first != second).all()
    third, rest = _release(_ONCE, _party(0, ids, one.memory), "test")
    assert (first == third).all()
    assert _epsilon([*noises, *more, *rest]) == _drawn(2)


def test_two_copies_of_a_partys_memory_tell_the_same_of_rows_that_came_after():
    one = _party(0, [f"p{place}" for place in range(20)], {"secret": 1})
    _release(_ONCE, one, "train")
    copies = [_party(0, one.data.ids, deepcopy(one.memory)) for _ in range(2)]
    first = _release(_ONCE, copies[0], "test")[0]
    second = np.concatenate(
        [_release(_ONCE, copies[1], "test", np.array([at]))[0] for at in copies[1].data.cut("test")]
    )
    assert (first == second).all()
    # Not the noise of another row, nor of another party.
    noise = first - _release(_ONCE, _party(0, one.data.ids, {"secret": 1}), "test")[0]
    assert len(np.unique(noise)) == noise.size


def test_seeded_noise_is_never_the_same_on_two_rows():
    """Rows of zeros, so that what is sent is the noise."""
    seeded = RowsOnce(clip=1.0, sigma=_SIGMA, seeded=True)
    memory = {"secret": 1}
    told = []
    for seed in range(3):
        party = _party(seed, memory=memory)
        told.append(unwrap(seeded.release(np.zeros((8, 3), np.float32), party, "test", party.data.cut("test")))[0])
    assert len({one.tobytes() for one in told}) == 3


def test_every_sending_of_a_row_by_private_steps_is_priced(federation, tmp_path):
    trained = _train(federation, PrivateSteps(clip=1.0, sigma=_SIGMA, gradient_sigma=200.0))
    party = trained.others[0]
    assert _paid(party.ledger) == pytest.approx(epsilon_of(1 / _SIGMA, _DELTA), rel=0.05)
    save_model(trained, tmp_path, ways=())
    twice = epsilon_of(compose([1 / _SIGMA] * 2), _DELTA)
    assert _paid(party.ledger) == pytest.approx(twice, rel=0.05)
    person = _ids(party.data, "test")[0]
    others = _ids(party.data, "test")[1:5]
    _, ledger = _ask_in_groups(tmp_path, federation, [[person, other] for other in others])
    # Sent once in the run, and once in each of four groups.
    assert _paid(ledger) == pytest.approx(epsilon_of(compose([1 / _SIGMA] * 5), _DELTA), rel=0.05)


@pytest.mark.parametrize(
    "put_on",
    [
        lambda *at: ClippedGaussian(sigma=_SIGMA).put_on_rows(*at, ()),
        lambda *at: LocalGaussian(epsilon=1.0, delta=_DELTA).put_on(*at),
    ],
    ids=["ClippedGaussian", "LocalGaussian"],
)
def test_fresh_noise_on_someone_asked_for_in_many_groups_is_paid_each_time(put_on):
    party = _party(0, [f"p{place}" for place in range(20)])
    noises = [put_on(party.data.x[12:], party, "test").noise]
    once = _epsilon(noises)
    for other in range(13, 16):
        party.data = party.data.with_cut(f"asked {other}", np.array([12, other]))
        noises.append(put_on(party.data.x[[12, other]], party, f"asked {other}").noise)
    assert len(set(noises)) == 4
    assert _epsilon(noises) == pytest.approx(epsilon_of(compose([1 / noises[0].multiplier] * 4), _DELTA), rel=0.02)
    party.data = party.data.with_cut("asked others", np.arange(16, 20))
    noises.append(put_on(party.data.x[16:], party, "asked others").noise)
    assert once < _epsilon(noises) == _epsilon(noises[:4])


def test_what_a_server_told_of_a_row_is_kept_before_the_answer_leaves(federation, tmp_path):
    save_model(_train(federation, _ONCE), tmp_path, ways=())
    name = federation.peers[0]
    table = federation.tables[name].as_new("test")
    told = []
    for group in (slice(0, 3), slice(0, 5)):  # The second after a crash: nothing was saved at the end.
        answerer = Answerer(parts_of(tmp_path)[name], table)
        people = table.keys[group].tolist()
        ids = {"ids": people, "rows": cut_name(people)}
        answerer.answer(encode(Question("find_rows", "align", 1, ids)))
        told.append(decode(answerer.answer(encode(Question("give_outputs", "final", 1, {"rows": ids["rows"]})))))
    assert (told[0] == told[1][:3]).all()


def test_fresh_noise_of_a_server_is_written_down_before_the_answer_leaves(federation, tmp_path):
    save_model(_train(federation, BatchClip(clip=1.0, sigma=50.0)), tmp_path, ways=())
    name = federation.peers[0]
    paid = [_paid(parts_of(tmp_path)[name].ledger)]
    table = federation.tables[name]
    answerer = Answerer(parts_of(tmp_path)[name], table)
    people = table.keys[table.cut("test")].tolist()
    ids = {"ids": people, "rows": cut_name(people)}
    answerer.answer(encode(Question("find_rows", "align", 1, ids)))
    for _ in range(2):  # Nothing is saved at the end.
        answerer.answer(encode(Question("give_outputs", "final", 1, {"rows": ids["rows"]})))
        paid.append(_paid(parts_of(tmp_path)[name].ledger))
    assert paid[0] < paid[1] < paid[2]


def test_a_prediction_that_fails_after_parties_have_answered_is_remembered(federation):
    trained = train(LocalDp(noise=LocalGaussian(epsilon=8.0), learner=LinearModel()), federation)
    late = {name: table.with_cut("late", table.cut("test")[:5]) for name, table in federation.tables.items()}
    fresh = replace(trained, hub=Party(trained.hub.name, trained.hub.data, 0))
    with pytest.raises(KeyError):
        fresh.predict("late", replace(federation, tables=late))
    assert [releases_of_rows(party) for party in trained.others] == [5, 5]


def test_predictions_after_training_are_in_the_ledger(federation):
    trained = _train(federation, BatchClip(clip=1.0, sigma=50.0))
    before = _paid(trained.others[0].ledger)
    for _ in range(3):
        trained.predict("test")
    assert _paid(trained.others[0].ledger) > before
    found = [one for one in trained.to_date().releases if one.step == "give_outputs"]
    assert [one.times for one in found] == [4] * len(trained.others)
