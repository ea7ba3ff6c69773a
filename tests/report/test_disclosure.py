import pytest

from laconic.deploy import Absence
from laconic.errors import DataError
from laconic.report.disclosure import Piece, disclose, pieces_of, render_disclosure
from tests.report.results import GAUSSIAN, paid, release, result


def test_a_record_lists_what_left_one_party_and_nothing_else():
    found = disclose(result(releases=(release("shop"), release("bank", words="gradients"))), "shop")
    (one,) = found.left
    assert (one.purpose, one.bytes, one.digest) == ("a few numbers a row", 700, "ab" * 16)
    assert one.pieces == (Piece(name="", type="float32", shape=(400, 8)),)
    assert (found.open, found.epsilon, one.epsilon) == (1, None, None)


def test_noise_with_a_proof_has_its_own_epsilon():
    run = result(releases=(release(noise=GAUSSIAN), release(words="its ids")), privacy=paid())
    found = disclose(run, "shop")
    assert found.left[0].epsilon == pytest.approx(1.9, abs=0.3)  # one Gaussian of scale 2 at delta 1e-5
    assert found.left[0].unit == "one row"
    assert (found.open, found.epsilon, found.delta) == (1, 2.0, 1e-5)


def test_a_party_that_took_no_part_is_an_error_naming_those_who_did():
    with pytest.raises(DataError, match="the parties are bank, shop"):
        disclose(result(), "shopp")


def test_questions_left_unanswered_are_counted():
    gone = tuple(Absence(phase="fit", round=number, step="send", party="shop") for number in (1, 2))
    assert disclose(result(absences=gone), "shop").absences == 2


@pytest.mark.parametrize(
    ("form", "pieces"),
    [
        ("float32 512x8", [("", "float32", (512, 8))]),
        ("train: float32 409x5, valid: float32 46x5", [("train", "float32", (409, 5)), ("valid", "float32", (46, 5))]),
        ("3 values", [("", "3 values", ())]),
        ("float64 number", [("", "float64", ())]),
        ("nothing", [("", "nothing", ())]),
        ("", []),
    ],
)
def test_shapes_and_types_are_read_from_the_ledgers_form(form, pieces):
    assert [(one.name, one.type, one.shape) for one in pieces_of(form)] == pieces


def test_the_page_is_for_a_reader_who_knows_nothing_of_the_method():
    page = render_disclosure([disclose(result(), "shop")])
    for words in (
        "What left shop",
        "a few numbers a row",
        "ab" * 16,
        "float32 400 x 8",
        "left open",
        "BLAKE2b",
    ):
        assert words in page
    assert "<script src" not in page


def test_what_stays_is_not_said_to_have_left():
    model = release("bank", noise=GAUSSIAN, words="its model, if published", bytes=0, digest="")
    page = render_disclosure([disclose(result(releases=(model,), privacy=paid()), "bank")])
    assert "Nothing left bank. 1 more would leave if it were published" in page
