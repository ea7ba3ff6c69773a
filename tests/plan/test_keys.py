from typing import Literal

import pytest

from laconic.errors import PlanError, closest
from laconic.plan.keys import set_key, to_settings
from laconic.values import Settings


class Small(Settings, frozen=True):
    dim: int = 4
    rate: float | None = 0.5

    def __post_init__(self) -> None:
        if self.dim < 1:
            raise ValueError(f"dim must be 1 or more, not {self.dim}")


class Large(Settings, frozen=True):
    dim: int = 8
    hidden: tuple[int, ...] = (3,)
    word: Literal["none", "some"] = "some"


class Whole(Settings, frozen=True, tag=False):
    name: str
    part: Small | Large | None = Small()
    other: Small | Large | None = None
    files: tuple[str, ...] | dict[str, str] = ()


def refusal(plain):
    with pytest.raises(PlanError) as caught:
        to_settings(plain, Whole)
    return str(caught.value)


def test_settings_are_read_from_plain_values():
    plain = {"name": "a", "part": {"type": "Large", "hidden": [1, 2]}}
    assert to_settings(plain, Whole) == Whole(name="a", part=Large(hidden=(1, 2)))


def test_an_unknown_key_is_named_in_full_with_the_nearest_one():
    said = refusal({"name": "a", "part": {"type": "Small", "dmi": 5}})
    assert "no setting part.dmi (found: 5)" in said
    assert "did you mean part.dim?" in said


def test_an_unknown_type_is_refused_with_the_known_ones():
    said = refusal({"name": "a", "part": {"type": "large"}})
    assert 'part.type = "large" is not known' in said
    assert "did you mean Large?" in said


def test_without_a_type_settings_are_of_the_usual_one_so_that_plans_stay_good_when_a_choice_is_added():
    assert to_settings({"name": "a", "part": {"dim": 5}}, Whole) == Whole("a", Small(dim=5))
    with pytest.raises(PlanError, match="other needs a type, one of: Small, Large"):
        to_settings({"name": "a", "other": {"dim": 5}}, Whole)


def test_a_missing_key_is_named():
    assert refusal({}) == "the setting name is missing"


def test_a_value_of_the_wrong_type_is_shown_with_its_key():
    said = refusal({"name": "a", "part": {"type": "Small", "dim": "many"}})
    assert said == 'part.dim = "many" does not fit: expected `int`, got `str`'


def test_a_refused_value_says_where_it_is():
    assert refusal({"name": "a", "part": {"type": "Small", "dim": 0}}) == "part: dim must be 1 or more, not 0"


def test_an_unknown_word_is_refused_with_the_allowed_ones():
    said = refusal({"name": "a", "part": {"type": "Large", "word": "sone"}})
    assert 'part.word = "sone" is not known; did you mean some' in said


def test_a_name_in_place_of_settings_says_how_to_choose_a_type():
    assert 'say part.type = "Large"' in refusal({"name": "a", "part": "Large"})


def test_the_word_none_means_nothing_only_where_nothing_is_allowed():
    whole = to_settings({"name": "none", "part": {"type": "Small", "rate": "none"}}, Whole)
    assert whole == Whole(name="none", part=Small(rate=None))
    assert to_settings({"name": "a", "part": {"type": "Large", "word": "none"}}, Whole).part == Large(word="none")
    assert to_settings({"name": "a", "part": "none"}, Whole).part is None


def test_setting_a_key_leaves_the_given_settings_alone():
    plain = {"name": "a", "part": {"type": "Small", "dim": 4}}
    changed = set_key(plain, "part.dim", 9, Whole)
    assert changed["part"]["dim"] == 9
    assert plain["part"]["dim"] == 4


def test_changing_the_type_keeps_what_the_new_one_also_has():
    plain = {"name": "a", "part": {"type": "Small", "dim": 7, "rate": 0.1}}
    assert set_key(plain, "part.type", "Large", Whole)["part"] == {"type": "Large", "dim": 7}


def test_setting_inside_what_is_not_set_begins_the_first_kind_that_has_the_key():
    plain = {"name": "a", "part": None}
    assert set_key(plain, "part.dim", 2, Whole)["part"] == {"type": "Small", "dim": 2}
    assert set_key(plain, "part.hidden", [2], Whole)["part"] == {"type": "Large", "hidden": [2]}


def test_setting_inside_an_empty_list_begins_a_table():
    changed = set_key({"name": "a", "files": []}, "files.bank", "b.csv", Whole)
    assert to_settings(changed, Whole).files == {"bank": "b.csv"}


def test_setting_inside_a_plain_value_is_refused():
    with pytest.raises(PlanError, match='name is "a", which has no settings'):
        set_key({"name": "a"}, "name.first", 1, Whole)


def test_the_nearest_word_is_found_in_any_case():
    assert closest("fedonse", ["FedOnce", "Solo"]) == "did you mean FedOnce? Allowed: FedOnce, Solo"
