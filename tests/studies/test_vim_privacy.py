"""What private scores of the VIM family are held against."""

from math import isclose

from laconic.privacy import DpPca, RowsOnce, compose, epsilon_of
from studies.vim_privacy import DELTA, _cases


def _rows_once():
    return {words: case for words, case in _cases(False).items() if isinstance(case.private.privacy, RowsOnce)}


def test_noise_alone_is_sent_by_the_encoder_of_the_score_beside_it():
    for case in _rows_once().values():
        private, null = case.private.privacy, case.null.privacy
        assert (null.encoder, null.rows) == (private.encoder, private.rows)
        assert isclose(null.scale, private.scale)
        assert null.clip < 1e-6 * private.clip


def test_cases_share_noise_alone_only_where_it_is_the_same():
    found = {}
    for case in _rows_once().values():
        assert found.setdefault(case.alone, case.null) == case.null


def test_the_epsilon_in_the_name_of_a_case_covers_its_encoder_too():
    guard = _rows_once()["rows once, DP-PCA, epsilon 8"].private.privacy
    assert isinstance(guard.encoder, DpPca)
    assert isclose(epsilon_of(compose([2 / guard.sigma, 2 / guard.encoder.sigma]), DELTA), 8.0)
