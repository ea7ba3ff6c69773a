"""New rows of everybody, and what a saved model says of them."""

from laconic.learn.sgd import Sgd
from laconic.model.absent import Zeros
from laconic.model.model import load_model
from laconic.model.reaching import parts_of, reach_parts
from laconic.runtime.inprocess import InProcess

QUICK = Sgd(epochs=30, lr=3e-3, patience=5)


def rows_of(federation, cut="test"):
    return {name: table.as_new(cut) for name, table in federation.tables.items()}


def ask(folder, tables, absent=Zeros(), runtime=InProcess()):  # noqa: B008
    model = load_model(folder)
    with reach_parts(model.part, parts_of(folder), tables, runtime) as carrier:
        return model.ask(tables["bank"], carrier, tables["bank"].keys.tolist(), absent=absent)
