"""A row whose values left by envelope is answered the same in every list of ids; fresh noise is paid for."""

import pandas
import pytest

from laconic.core import decode
from laconic.deploy.coordinator import predict
from laconic.deploy.party_account import EpsilonAccount
from laconic.deploy.party_context import context_for_ids
from laconic.deploy.party_memory import PartyFolder
from laconic.deploy.sealed_answers import answer_new
from laconic.errors import Refused, Waiting
from laconic.privacy import compose, epsilon_of
from tests.deploy.conftest import ALLOW, World
from tests.deploy.test_training import mail_until_done

_DELTA, _SIGMA = 1e-6, 4.0
_METHODS = ALLOW.replace('"FedOnce"', '"VimSgd"')
_LATE = ["n1", "n2", "n3", "n4"]
"""People who came after training."""

_VIM = '[method]\ntype = "VimSgd"\nepochs = 1\nwidth = 4\n[method.privacy]\nclip = 1.0\nsigma = 4.0\n'
_ONCE = _VIM + 'type = "RowsOnce"\n'
_EACH_TIME = _VIM + 'type = "PrivateSteps"\ngradient_sigma = 200.0\n'


def _trained(folder, method):
    world = World(folder, parties=("bank", "shop"), allow=_METHODS)
    world.plan(method)
    mail_until_done(world)
    for name in world.parties:
        rows = pandas.read_csv(world.home(name) / "rows.csv")
        new = rows.head(len(_LATE)).assign(customer=_LATE)
        pandas.concat([rows, new]).to_csv(world.home(name) / "rows.csv", index=False)
    return world


def _ask(world, people):
    """The bank's question about these people, carried over to the shop."""
    name = "-".join(people)
    inbox = world.home("bank") / name
    inbox.mkdir()
    with pytest.raises(Waiting):
        predict(world.trained_context("bank"), inbox, people)
    (question,) = (inbox / "questions").iterdir()
    return question.rename(world.home("shop") / f"{name}.envelope")


def _tell(world, question, people):
    """What the shop says to a question about these people."""
    context = world.trained_context("shop")
    sealed = answer_new(context, question, people, world.root / question.name)
    (blob,) = sealed.content.blobs
    kept = PartyFolder(context_for_ids(context, people).folder / "party")
    return decode(kept.reply(blob.question))


def _people(world, cut, count):
    table = world.trained_context("shop").party.data
    return table.keys[table.cut(cut)].tolist()[:count]


def _spent(world):
    return EpsilonAccount(world.home("shop") / "shop.account" / "spent").epsilon(_DELTA)


def test_a_person_in_several_lists_is_answered_the_same(tmp_path):
    world = _trained(tmp_path, _ONCE)
    for person in (_people(world, "train", 1)[0], _LATE[0]):
        lists = [[other, person] for other in _people(world, "test", 2) + _LATE[1:]]
        heard = [_tell(world, _ask(world, people), people)[1] for people in lists]
        assert len({one.tobytes() for one in heard}) == 1


def test_lists_that_are_answered_without_knowing_of_each_other_are_answered_the_same(tmp_path):
    world = _trained(tmp_path, _ONCE)
    heard = []
    for people in (_LATE[:2], [_LATE[2], _LATE[1]]):
        heard.append(_tell(world, _ask(world, people), people)[1])
        for folder in world.trained_context("shop").run.glob("predict-*"):
            folder.rename(tmp_path / folder.name)  # As if both had begun at the same time.
    assert heard[0].tobytes() == heard[1].tobytes()


def test_a_list_that_was_refused_at_first_is_answered_the_same_later(tmp_path):
    world = _trained(tmp_path, _ONCE)
    rules = world.home("shop") / "shop.toml"
    free = rules.read_text()
    question = _ask(world, _LATE[:2])
    rules.write_text(free + "max_rows = 1\n")
    with pytest.raises(Refused, match="max_rows"):
        _tell(world, question, _LATE[:2])
    rules.write_text(free)
    others = [_LATE[2], _LATE[1]]
    between = _tell(world, _ask(world, others), others)[1]
    assert _tell(world, question, _LATE[:2])[1].tobytes() == between.tobytes()


def test_fresh_noise_is_paid_for_in_every_list(tmp_path):
    world = _trained(tmp_path, _EACH_TIME)
    for lists in range(1, 4):
        people = [_LATE[0], _LATE[lists]]
        _tell(world, _ask(world, people), people)
        # Nothing tells runs' people apart at the party: all lists add up, and the run with them.
        least = epsilon_of(compose([1 / _SIGMA] * (lists + 1)), _DELTA)
        assert least * 0.98 < _spent(world) < least * 1.1
