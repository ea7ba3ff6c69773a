"""Methods say which cuts they learn from, and touch no other."""

import pytest

from laconic import Equal, deal, load, simulate
from laconic.learn import FixMatchTab, Sgd
from laconic.methods.registry import methods
from laconic.tables import Table

SHORT = Sgd(epochs=1)


def short(kind):
    """The method with as little training as can be set."""
    if "local" in kind.__struct_fields__:
        return kind(trainer=SHORT, local=FixMatchTab(steps=2))
    return kind(trainer=SHORT) if "trainer" in kind.__struct_fields__ else kind()


@pytest.mark.parametrize(
    "kind", [kind for kind in methods().values() if kind.kind == "vertical"], ids=lambda kind: kind.__name__
)
def test_a_method_learns_from_the_cuts_it_names_and_from_no_other(kind, monkeypatch):
    federation = deal(load("breast_cancer"), Equal(parties=3), overlap=0.5, test=0.3)
    touched = set()
    looked_up = Table.cut
    monkeypatch.setattr(Table, "cut", lambda table, rows: touched.add(rows) or looked_up(table, rows))
    simulate(short(kind), federation)
    # "test" is what every run is scored on; nobody has labels of others' rows to learn from there.
    assert touched - {"test"} <= set(kind.uses)
    assert "own" not in kind.uses or "own" in touched
