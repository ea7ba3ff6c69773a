"""Settings written in Python are checked where they are written, in words."""

from fractions import Fraction

import msgspec
import numpy as np
import pytest

import laconic
from laconic import privacy
from laconic.learn import Boosted, Nat, Pca, Sgd

FED = laconic.deal(laconic.load("breast_cancer"), laconic.Equal(parties=2))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: laconic.FedOnce(precision="float17"), "precision of FedOnce must be 'float16' or 'float32', not 'flo"),
        (lambda: laconic.FedOnce(row_bytes="64"), "row_bytes of FedOnce must be a whole number, not '64'"),
        (lambda: laconic.FedOnce(row_bytes=True), "must be a whole number, not True"),
        (lambda: laconic.FedOnce(encoder="Pca"), r"encoder of FedOnce must be BestEncoder\(\), .* not 'Pca'"),
        (lambda: laconic.FedOnce(encoder=Pca), r"not the class Pca; write Pca\(\)"),
        (lambda: laconic.FedOnce(encoder=None), "not None"),
        (lambda: laconic.FedOnce(head={"type": "Boosted"}), r"head of FedOnce must be .* or None, not \{'type'"),
        (lambda: Pca(dim=2.5), "dim of Pca must be a whole number or None, not 2.5"),
        (lambda: Sgd(lr="fast"), "lr of Sgd must be a number, not 'fast'"),
        (lambda: laconic.FedOnce(encoder=Boosted()), r"not laconic.learn.Boosted\(\)"),
        (
            lambda: laconic.fit("FedOnce", FED, budget=privacy.Budget(epsilon=1.0)),
            r"budget of Plan must be Budget\(\), not laconic.privacy.Budget\(\)",
        ),
        (lambda: laconic.FedOnce("float17"), "precision of FedOnce must be"),
        (lambda: laconic.FedOnce(encode=Pca()), "FedOnce has no setting 'encode'; did you mean encoder?"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_where_it_is_written(make, words):
    with pytest.raises(TypeError, match=words):
        make()


def test_numbers_of_other_libraries_are_numbers():
    made = Sgd(epochs=np.int64(3), lr=np.float32(0.5), momentum=Fraction(1, 2))
    assert (made.epochs, made.lr, made.momentum) == (3, 0.5, 0.5)


def test_settings_are_still_read_from_text_and_changed():
    made = laconic.FedOnce(encoder=Nat(dim=4))
    assert msgspec.convert(msgspec.to_builtins(made), laconic.FedOnce) == made
    assert msgspec.structs.replace(made, row_bytes=8).row_bytes == 8


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Nat", "laconic has no 'Nat'; write `from laconic.learn import Nat`"),
        ("FedOnc", "laconic has no 'FedOnc'; did you mean FedOnce?"),
        ("whatever_this_is", "laconic has no 'whatever_this_is'"),
    ],
)
def test_a_name_that_is_not_at_the_top_says_where_it_is(name, words):
    with pytest.raises(AttributeError) as found:
        getattr(laconic, name)
    assert str(found.value) == words
