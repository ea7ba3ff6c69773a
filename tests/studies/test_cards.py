import pytest

from studies.cards import refresh, unsourced
from studies.figures import FigureError, like, text_of, value_of

TABLES = """\
# Study

## bread

| method | score | bytes | paper |
|---|---|---|---|
| Solo | 0.9289 ± 0.0085 | 1,000 | |
| Once, BestEncoder | 0.9705 ± 0.0060 | 76,000 | 0.9 (Table 7) |

## bread: parties

| data | parties | score |
|---|---|---|
| rye | 2 | 1.25 |
| rye | 4 | 2.5 / 3.5 |
"""


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr("studies.figures.ROOT", tmp_path)
    monkeypatch.setattr("studies.cards.ROOT", tmp_path)
    folder = tmp_path / "studies" / "results" / "study"
    folder.mkdir(parents=True)
    (folder / "table.md").write_text(TABLES)
    return "study/table.md"


def card(text):
    return f"<!-- figures from study/table.md -->\n{text}"


def test_a_figure_is_written_with_as_many_decimals_as_it_had(results):
    assert refresh(card("0.00<!-- bread > Solo -->")) == card("0.93<!-- bread > Solo -->")
    assert refresh(card("1<!-- bread > Solo > bytes -->")) == card("1000<!-- bread > Solo > bytes -->")
    assert refresh(card("0,0<!-- bread > Solo > bytes -->")) == card("1,000<!-- bread > Solo > bytes -->")


def test_a_mean_brings_its_spread_where_one_is_written(results):
    assert "0.97 ± 0.01<!--" in refresh(card("0.00 ± 0.00<!-- bread > Once, BestEncoder -->"))


def test_a_formula_joins_cells(results):
    assert value_of("[bread > Once, BestEncoder > bytes] / [bread > Solo > bytes]", results) == 76
    assert value_of("max([bread > Solo], [bread > Once, BestEncoder]) * 100 - 1", results) == pytest.approx(96.05)


def test_what_needs_no_cell_is_worked_out():
    assert refresh("0.00<!-- = 1 - 2 * exp(-54 * 0.5 / 12) -->") == "0.79<!-- = 1 - 2 * exp(-54 * 0.5 / 12) -->"


def test_rows_are_told_apart_by_further_cells(results):
    assert value_of("bread: p > rye & 2 > score", results) == 1.25
    assert value_of("bread: p > * & 4 > score #2", results) == 3.5
    with pytest.raises(FigureError, match="2 rows"):
        value_of("bread: p > rye > score", results)


def test_a_table_is_written_from_its_pattern_and_again_to_the_same(results):
    text = card("<!-- table\n| | a |\n|---|---|\n| b | {bread > Solo as 0.0} |\n-->\n<!-- end of table -->")
    fresh = refresh(text)
    assert "\n| b | 0.9 |\n<!-- end of table -->" in fresh
    assert refresh(fresh) == fresh


def test_a_long_heading_can_have_a_short_name(results):
    text = card("<!-- short B = bread: parties -->\n0.00<!-- [B > rye & 2 > score] * 2 --> Brye")
    assert "\n2.50<!-- [B > rye & 2 > score] * 2 --> Brye" in refresh(text)


def test_the_least_and_the_most_of_several_rows(results):
    assert value_of("max([bread: p > rye > score])", results) == 2.5
    with pytest.raises(FigureError, match="cannot work out"):
        value_of("[bread: p > rye > score] * 2", results)


def test_a_whole_table_can_be_taken_with_some_of_its_columns(results):
    assert text_of("bread > * > method & bytes", results).splitlines()[-1] == "| Once, BestEncoder | 76,000 |"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bread > Sol", "near it: ['Solo'"),
        ("brad > Solo", "no section"),
        ("bread > Solo > price", "no column"),
        ("bread > Solo > paper", "has no number 1"),
        ("bread", "is not SECTION > ROW > COLUMN"),
        ("other.md > bread > Solo", "no results file"),
        ("[bread > Solo] ** 2", "cannot work out"),
        ("[bread > Solo] +", "cannot read the formula"),
    ],
)
def test_a_figure_that_is_not_in_the_results_is_an_error_with_its_line(results, name, words):
    with pytest.raises(FigureError, match="line 3") as problem:
        refresh(card(f"\n1.0<!-- {name} -->"))
    assert words in str(problem.value)


def test_a_figure_said_to_stand_in_a_file_must_stand_there(results, tmp_path):
    (tmp_path / "speed.txt").write_text("took 12.15 s")
    assert refresh("12.15<!-- in speed.txt -->") == "12.15<!-- in speed.txt -->"
    with pytest.raises(FigureError, match="is not in"):
        refresh("12.1<!-- in speed.txt -->")
    with pytest.raises(FigureError, match="which is not there"):
        refresh("12.1<!-- in gone.txt -->")


def test_measured_looking_numbers_without_a_source_are_found():
    sourced = "`lr=0.1` 4 bytes a row, 0.5<!-- paper: Table 1 -->, [x](a-1.5.md)"
    text = f"It has 0.97, 3 %, 23 MB and 466 rounds.\n{sourced}\n1/12.1"
    assert list(unsourced(text)) == [(1, "0.97"), (1, "3"), (1, "23"), (1, "466"), (3, "12.1")]


def test_numbers_of_a_table_typed_by_hand_are_found():
    assert list(unsourced("| a |\n|---|\n| 0.5 ± 0.1 |")) == [(3, "0.5"), (3, "0.1")]


def test_a_sample_says_how_a_number_is_written():
    assert like("0,000 ± 0", [52906.92, 663.8]) == "52,907 ± 664"
    assert like("0.00 ± 0.00", [1.0]) == "1.00"
