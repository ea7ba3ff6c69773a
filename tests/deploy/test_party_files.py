"""`party.toml`: what one party says of itself."""

import pytest

from laconic.data import IdRules
from laconic.deploy.party_files import read_party
from laconic.errors import PlanError

WHOLE = """
name = "bank"

[data]
source = "customers.csv"
key = ["branch", "customer"]
label = "churned"
task = "binary"
on_duplicate = "first"

[data.columns]
income = "numeric"
town = "categorical"
joined = "date"

[data.ids]
case = "lower"
zeros = "drop"

[allow]
methods = ["FedOnce"]
steps.send = {most_rows = 10}
"""


def write(tmp_path, text):
    path = tmp_path / "party.toml"
    path.write_text(text)
    return path


def test_a_party_file_says_name_data_and_allowances(tmp_path):
    party = read_party(write(tmp_path, WHOLE))
    data = party.own_data
    assert party.name == "bank"
    assert (data.keys, data.label, data.task, data.on_duplicate) == (
        ("branch", "customer"),
        "churned",
        "binary",
        "first",
    )
    assert data.columns == {"income": "numeric", "town": "categorical", "joined": "date"}
    assert data.ids == IdRules(case="lower", zeros="drop")
    assert party.allow == {"methods": ["FedOnce"], "steps": {"send": {"most_rows": 10}}}


def test_a_source_is_looked_for_beside_the_file(tmp_path):
    assert read_party(write(tmp_path, WHOLE)).own_data.source == str(tmp_path / "customers.csv")


def test_a_database_is_named_by_its_url(tmp_path):
    text = 'name = "bank"\n[data]\nsource = "sqlite:///bank.db"\ntable = "people"\nkey = "id"\n'
    data = read_party(write(tmp_path, text)).own_data
    assert data.in_database
    assert (data.source, data.table, data.keys) == (f"sqlite:///{tmp_path}/bank.db", "people", ("id",))


def test_a_server_has_no_data(tmp_path):
    party = read_party(write(tmp_path, 'name = "server"\n'))
    assert party.data is None
    with pytest.raises(PlanError, match=r"party 'server' has no \[data\]"):
        _ = party.own_data


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('on_duplicate = "first"', 'on_duplicate = "last"', 'data.on_duplicate = "last" is not known'),
        ('label = "churned"', 'lable = "churned"', "did you mean data.table or data.label"),
        ('key = ["branch", "customer"]', 'key = ""', "key must name the column"),
        ('key = ["branch", "customer"]', 'key = "town"', "'town' is the key and also listed"),
        ('label = "churned"', 'label = "customer"', "both key and label"),
        ('joined = "date"', 'joined = "day"', "categorical, date, numeric"),
        ('source = "customers.csv"', 'source = "sqlite:///bank.db"', "needs table"),
        ('source = "customers.csv"', 'source = "customers.csv"\ntable = "x"', "are for databases"),
        ('name = "bank"', 'name = "../bank"', "name must be letters"),
        ('name = "bank"', 'name = "bank', "cannot be read as TOML"),
        ('name = "bank"', 'name = "bank"\npath = "x"', "no setting path"),
    ],
)
def test_what_does_not_fit_is_refused_with_file_and_key(tmp_path, before, after, words):
    with pytest.raises(PlanError, match=r"party\.toml") as caught:
        read_party(write(tmp_path, WHOLE.replace(before, after)))
    assert words in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(PlanError, match=r"there is no party file .*nobody\.toml"):
        read_party(tmp_path / "nobody.toml")
