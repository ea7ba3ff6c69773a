"""An example for every name of `laconic` itself whose docstring has none, and the groups in which the site shows names.

`tests/tools/test_api_examples.py` runs them all. They are kept short: small public data that comes with scikit-learn.
"""

_TABLES = """\
>>> import pandas
>>> people = pandas.DataFrame({"customer": range(80), "age": [20 + n % 50 for n in range(80)]})
>>> people["churned"] = ["yes" if n % 3 else "no" for n in range(80)]
>>> spent = pandas.DataFrame({"customer": range(80), "spent": [n % 7 for n in range(80)]})"""

_VERTICAL = """\
>>> from laconic import {name}, Equal, deal, fit, load{more}
>>> parties = deal(load("breast_cancer"), Equal(parties=2))
>>> model = fit({made}, parties)
>>> model.result.fit.rounds
{rounds}"""

_HORIZONTAL = """\
>>> from laconic import {name}, Dirichlet, deal_rows, fit, load{more}
>>> hospitals = deal_rows(load("breast_cancer"), Dirichlet(parties=2, beta=1.0))
>>> model = fit({made}, hospitals)
>>> model.result.fit.rounds
{rounds}"""

_SGD = "\n>>> from laconic.learn import Sgd"
_MADE = {
    "FedOnce": ("FedOnce()", 1, ""),
    "Rap": ("Rap()", 1, ""),
    "OneShot": ("OneShot(trainer=Sgd(epochs=3))", 2, _SGD),
    "FewShot": ("FewShot(trainer=Sgd(epochs=3))", 3, _SGD),
    "SplitNN": ("SplitNN(trainer=Sgd(epochs=2))", 10, _SGD),
    "FedBCD": ("FedBCD(trainer=Sgd(epochs=2))", 10, _SGD),
    "FedCVT": ("FedCVT(trainer=Sgd(epochs=2))", 10, _SGD),
    "Fdml": ("Fdml(epochs=2)", 10, ""),
    "Vafl": ("Vafl(epochs=2)", 10, ""),
    "VimAdmm": ("VimAdmm(epochs=2)", 10, ""),
    "VimAdmmJoint": ("VimAdmmJoint(epochs=2)", 10, ""),
    "VimSgd": ("VimSgd(epochs=2)", 10, ""),
    "VerticalXgboost": ("VerticalXgboost(trees=Boosted(trees=2))", 19, "\n>>> from laconic.learn import Boosted"),
    "Solo": ("Solo()", 0, ""),
    "Centralised": ("Centralised()", 1, ""),
    "LateFusion": ("LateFusion()", 1, ""),
    "Linear": ("Linear()", 1, ""),
    "LocalDp": ("LocalDp()", 1, ""),
    "Analytic": ("Analytic()", 1, ""),
    "FedAvg": ("FedAvg(exchanges=3)", 3, ""),
    "FedAdam": ("FedAdam(exchanges=2)", 2, ""),
    "FedYogi": ("FedYogi(exchanges=2)", 2, ""),
    "FedProx": ("FedProx(exchanges=2)", 2, ""),
    "FedDf": ("FedDf()", 1, ""),
    "Scaffold": ("Scaffold(exchanges=2)", 2, ""),
    "FedKt": ("FedKt()", 1, ""),
    "FedPft": ("FedPft()", 1, ""),
    "FedTrees": ("FedTrees()", 1, ""),
    "Pate": ("Pate()", 1, ""),
    "Pfnm": ("Pfnm()", 1, ""),
    "PooledRows": ("PooledRows()", 1, ""),
    "SoloRows": ("SoloRows()", 1, ""),
}
_VERTICAL_NAMES = [
    *("FedOnce", "Rap", "OneShot", "FewShot", "SplitNN", "FedBCD", "FedCVT", "Fdml", "Vafl"),
    *("VimAdmm", "VimAdmmJoint", "VimSgd", "VerticalXgboost"),
]
_BASELINES = ["Solo", "Centralised", "LateFusion", "Linear", "LocalDp"]
_HORIZONTAL_NAMES = [name for name in _MADE if name not in (*_VERTICAL_NAMES, *_BASELINES)]

GROUPS: dict[str, tuple[str, list[str]]] = {
    "data": (
        "Bring data",
        [
            "federation",
            "from_frames",
            "from_files",
            "rows_from_frames",
            "rows_from_files",
            "from_party_files",
            "load",
            "deal",
            "deal_rows",
            "Equal",
            "Dirichlet",
            "disturb",
            "Federation",
        ],
    ),
    "runs": (
        "Run and compare",
        [
            "fit",
            "compare",
            "importance",
            "read_results",
            "Result",
            "Plan",
            "DataPlan",
            "Budget",
            "read_plan",
            "write_plan",
        ],
    ),
    "models": (
        "Use a model",
        ["save_model", "load_model", "add_rows", "add_party", "forget", "FederatedClassifier", "FederatedRegressor"],
    ),
    "vertical": ("Vertical methods", [*_VERTICAL_NAMES, *_BASELINES]),
    "horizontal": ("Horizontal methods", _HORIZONTAL_NAMES),
    "trust": (
        "Privacy, reports and methods of your own",
        ["price", "disclose", "render_page", "check_method", "Method", "LaconicError"],
    ),
}
"""Pages of the reference: a title, and the names on it."""

_SAVED = """\
>>> import tempfile
>>> from laconic import FedOnce, Equal, deal, load, save_model{more}
>>> from laconic.deploy import train
>>> from laconic.learn import LinearModel
>>> parties = deal(load("breast_cancer"), Equal(parties=3))
>>> folder = tempfile.mkdtemp() + "/model"
>>> card = save_model(train(FedOnce(head=LinearModel()), parties, seed=0), folder)"""

EXAMPLES: dict[str, str] = {
    "Cox": """\
>>> import laconic
>>> from laconic.testing import small_horizontal
>>> model = laconic.fit(laconic.Cox(), small_horizontal("survival"))
>>> model.result.fit.rounds, model.result.score.metric
(1, 'concordance')""",
    "from_frames": f"""{_TABLES}
>>> from laconic import from_frames
>>> parties = from_frames({{"bank": people, "shop": spent}}, id="customer", label="churned")
>>> list(parties.tables)
['bank', 'shop']""",
    "from_files": f"""{_TABLES}
>>> import tempfile, pathlib
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> people.to_csv(folder / "bank.csv", index=False); spent.to_csv(folder / "shop.csv", index=False)
>>> from laconic import from_files
>>> files = {{"bank": folder / "bank.csv", "shop": folder / "shop.csv"}}
>>> from_files(files, id="customer", label="churned").task.kind
'binary'""",
    "rows_from_frames": f"""{_TABLES}
>>> from laconic import rows_from_frames
>>> north, south = people[:40], people[40:]
>>> hospitals = rows_from_frames({{"north": north, "south": south}}, label="churned")
>>> [name for name in hospitals.tables if name != hospitals.hub]
['north', 'south']""",
    "rows_from_files": f"""{_TABLES}
>>> import tempfile, pathlib
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> people[:40].to_csv(folder / "north.csv", index=False); people[40:].to_csv(folder / "south.csv", index=False)
>>> from laconic import rows_from_files
>>> files = {{"north": folder / "north.csv", "south": folder / "south.csv"}}
>>> rows_from_files(files, label="churned").kind
'horizontal'""",
    "from_party_files": f"""{_TABLES}
>>> import tempfile, pathlib
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> people.to_csv(folder / "bank.csv", index=False); spent.to_csv(folder / "shop.csv", index=False)
>>> start = 'name = "{{0}}"\\n[data]\\nsource = "{{0}}.csv"\\nkey = "customer"\\n'
>>> _ = (folder / "bank.toml").write_text(start.format("bank") + 'label = "churned"\\n')
>>> _ = (folder / "shop.toml").write_text(start.format("shop"))
>>> from laconic import from_party_files
>>> found = from_party_files([folder / "bank.toml", folder / "shop.toml"])
>>> list(found.tables)
['bank', 'shop']""",
    "load": """\
>>> from laconic import load
>>> load("diabetes").task.kind
'regression'""",
    "deal": """\
>>> from laconic import Equal, deal, load
>>> len(deal(load("breast_cancer"), Equal(parties=3)).tables)
3""",
    "deal_rows": """\
>>> from laconic import Dirichlet, deal_rows, load
>>> deal_rows(load("breast_cancer"), Dirichlet(parties=4, beta=0.5)).kind
'horizontal'""",
    "Equal": """\
>>> from laconic import Equal
>>> Equal(parties=3).parties
3""",
    "Dirichlet": """\
>>> from laconic import Dirichlet
>>> Dirichlet(parties=5, beta=0.1).beta
0.1""",
    "disturb": """\
>>> from laconic import Equal, deal, disturb, load
>>> parties = deal(load("breast_cancer"), Equal(parties=2))
>>> disturb(parties, "shop", sd=3.0).facts["disturbed"]["party"]
'shop'""",
    "Federation": f"""{_TABLES}
>>> from laconic import federation
>>> parties = federation({{"bank": people, "shop": spent}}, id="customer", label="churned")
>>> parties.hub, parties.kind
('bank', 'vertical')""",
    "importance": """\
>>> from laconic import FedOnce, Equal, deal, importance, load
>>> from laconic.deploy import train
>>> from laconic.learn import LinearModel
>>> fitted = train(FedOnce(head=LinearModel()), deal(load("breast_cancer"), Equal(parties=2)), seed=0)
>>> sorted(importance(fitted).shapley)
['bank', 'shop']""",
    "read_results": """\
>>> import tempfile, pathlib
>>> from click.testing import CliRunner
>>> from laconic import read_results
>>> from laconic.cli import main
>>> kept = pathlib.Path(tempfile.mkdtemp()) / "run.json"
>>> done = CliRunner().invoke(main, ["run", "Linear", "--data", "breast_cancer", "--save", str(kept)])
>>> len(read_results(kept))
1""",
    "Result": """\
>>> from laconic import Linear, Equal, deal, load, fit
>>> result = fit(Linear(), deal(load("breast_cancer"), Equal(parties=2))).result
>>> result.score.metric, result.fit.rounds
('auc', 1)""",
    "Plan": """\
>>> from laconic import DataPlan, FedOnce, Plan
>>> Plan(method=FedOnce(), data=DataPlan(name="breast_cancer", parties=3), seed=1).seed
1""",
    "DataPlan": """\
>>> from laconic import DataPlan
>>> DataPlan(files=("bank.csv", "shop.csv"), id="customer", label="churned").id
'customer'""",
    "Budget": """\
>>> from laconic import Budget
>>> Budget(epsilon=2.0, delta=1e-5).epsilon
2.0""",
    "read_plan": """\
>>> from laconic import DataPlan, FedOnce, Plan, read_plan, write_plan
>>> plan = Plan(method=FedOnce(), data=DataPlan(name="breast_cancer", parties=3))
>>> read_plan(write_plan(plan)) == plan
True""",
    "write_plan": """\
>>> from laconic import DataPlan, FedOnce, Plan, write_plan
>>> text = write_plan(Plan(method=FedOnce(), data=DataPlan(name="breast_cancer")))
>>> "[method]" in text
True""",
    "save_model": _SAVED.format(more="")
    + """
>>> card.hub, card.method
('bank', 'FedOnce')""",
    "load_model": _SAVED.format(more=", load_model")
    + """
>>> load_model(folder).task.label
'diagnosis'""",
    "add_rows": _SAVED.format(more=", add_rows, load_model")
    + """
>>> from pathlib import Path
>>> from laconic.inference import parts_of, reach_parts
>>> model, parts = load_model(folder), parts_of(Path(folder))
>>> new = {name: table.as_new("test") for name, table in parties.tables.items()}
>>> with reach_parts(model.part, parts, new) as others:
...     grown, difference = add_rows(model, new["bank"], None, others)
>>> grown.store.own.rows - model.store.own.rows == new["bank"].rows
True""",
    "add_party": """\
>>> import tempfile
>>> from laconic import FedOnce, Equal, Federation, add_party, deal, load, load_model, save_model
>>> from laconic.deploy import train
>>> from laconic.learn import LinearModel
>>> three = deal(load("breast_cancer"), Equal(parties=3))
>>> first = {name: three.tables[name] for name in list(three.tables)[:2]}
>>> two = Federation(name="two", tables=first, hub=three.hub, aligned=True)
>>> folder = tempfile.mkdtemp() + "/model"
>>> _ = save_model(train(FedOnce(head=LinearModel()), two, seed=0), folder)
>>> grown, difference, part = add_party(load_model(folder), "insurer", three.tables["insurer"])
>>> grown.part.about.peers
('shop', 'insurer')""",
    "forget": _SAVED.format(more=", forget")
    + """
>>> from pathlib import Path
>>> record, card = forget(Path(folder), "shop", accept=True)
>>> [one.party for one in card.asked]
['insurer', 'insurer']""",
    "FederatedRegressor": """\
>>> from sklearn.datasets import load_diabetes
>>> from laconic import FederatedRegressor, Linear
>>> x, y = load_diabetes(return_X_y=True)
>>> FederatedRegressor(Linear()).fit(x, y).predict(x[:3]).shape
(3,)""",
    "price": """\
>>> from laconic import LocalDp, Equal, deal, load, price
>>> from laconic.deploy import train
>>> fitted = train(LocalDp(), deal(load("breast_cancer"), Equal(parties=2)), seed=0)
>>> price({one.name: one.ledger for one in fitted.others}, delta=1e-5).epsilon > 0
True""",
    "disclose": """\
>>> from laconic import Linear, Equal, deal, disclose, load, fit
>>> result = fit(Linear(), deal(load("breast_cancer"), Equal(parties=2))).result
>>> disclose(result, "shop").party
'shop'""",
    "render_page": """\
>>> from laconic import Linear, Equal, deal, load, render_page, fit
>>> page = render_page([fit(Linear(), deal(load("breast_cancer"), Equal(parties=2))).result])
>>> page.startswith("<!doctype html>")
True""",
    "check_method": """\
>>> from laconic import Linear, check_method
>>> _ = check_method(Linear())""",
    "Method": """\
>>> from laconic import FedOnce, Method
>>> issubclass(FedOnce, Method), FedOnce().rounds
(True, 1)""",
    "LaconicError": """\
>>> from laconic import LaconicError, read_plan
>>> try:
...     read_plan("method = ")
... except LaconicError as problem:
...     print(type(problem).__name__)
PlanError""",
}
"""By name; those of methods are put together from what is built above."""

for _name, (_made, _rounds, _more) in _MADE.items():
    _form = _HORIZONTAL if _name in _HORIZONTAL_NAMES else _VERTICAL
    EXAMPLES[_name] = _form.format(name=_name, made=_made, rounds=_rounds, more=_more)
