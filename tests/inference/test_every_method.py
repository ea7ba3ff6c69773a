"""Saved by one process, loaded by another, every method predicts rows by id as before, to the bit."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from laconic import train
from laconic.core import encode
from laconic.inference.save import save_model
from laconic.learn import Sgd
from laconic.methods import methods
from laconic.tables import Table
from laconic.testing import small_federation, small_horizontal

READER = """
import json, sys
from pathlib import Path
from laconic.core.ledger import digest_of
from laconic.tables.table import Table
from laconic.core.wire import decode
from laconic.inference.predict import load_model
from laconic.inference.local_transport import parts_of, reach_parts

found = {}
for folder in sorted(path for path in Path(sys.argv[1]).iterdir() if path.is_dir()):
    model = load_model(folder)
    read = decode((folder.parent / f"{folder.name}.rows").read_bytes())
    tables = {name: Table.from_plain(one) for name, one in read["tables"].items()}
    own = tables.get(model.part.about.party, Table.without_rows("server"))
    with reach_parts(model.part, parts_of(folder), tables) as carrier:
        found[folder.name] = digest_of(model.ask(own, carrier, read["ids"], name="test").predictions.tobytes())
print(json.dumps(found))
"""


def quick(kind):
    """The method with as little training as there can be."""
    method = kind()
    fields = {field.name for field in msgspec.structs.fields(kind)}
    if "trainer" in fields:
        method = msgspec.structs.replace(method, trainer=msgspec.structs.replace(method.trainer or Sgd(), epochs=1))
    if "epochs" in fields:
        method = msgspec.structs.replace(method, epochs=1)
    if "least_rows" in fields:
        method = msgspec.structs.replace(method, least_rows=1)
    if kind.__name__ == "LocalDp":
        method = msgspec.structs.replace(method, noise=msgspec.structs.replace(method.noise, seeded=True))
    return method


def new_rows(trained):
    tables = trained.federation.tables
    new = {name: table.as_new("test") if "test" in table.cuts else table for name, table in tables.items()}
    return new, new[trained.federation.hub].keys.tolist()


@pytest.mark.slow
def test_every_method_predicts_the_same_after_loading_in_a_fresh_process(tmp_path):
    expected = {}
    for kind in methods().values():
        method = quick(kind)
        make = small_horizontal if method.kind == "horizontal" else small_federation
        federation = make("binary" if "binary" in method.tasks else method.tasks[0])
        trained = train(method, federation)
        name = kind.__name__
        save_model(trained, tmp_path / name, ways=())
        tables, ids = new_rows(trained)
        plain = {party: table.to_plain() for party, table in tables.items() if isinstance(table, Table)}
        Path(tmp_path / f"{name}.rows").write_bytes(encode({"tables": plain, "ids": ids}))
        expected[name] = trained.result.predictions
    done = subprocess.run(
        [sys.executable, "-c", READER, str(tmp_path)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == expected
