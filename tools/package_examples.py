"""Examples for names of packages (`laconic.learn.Pca`) whose docstring has none, one per group that belongs together.

`tests/tools/test_api_examples.py` runs each of them, and holds that every public name is in one. They use small public
data that comes with scikit-learn, or numbers made up on the spot.
"""

_PARTIES = """\
>>> import laconic
>>> parties = laconic.deal(laconic.load("breast_cancer"), laconic.Equal(parties=2))"""

_FITTED = f"""\
{_PARTIES}
>>> from laconic.deploy import train
>>> from laconic.learn import LinearModel
>>> fitted = train(laconic.FedOnce(head=LinearModel()), parties, seed=0)
>>> result = fitted.result"""

_SAVED = f"""\
{_PARTIES}
>>> import tempfile
>>> from pathlib import Path
>>> from laconic.learn import LinearModel
>>> folder = Path(tempfile.mkdtemp()) / "ward"
>>> card = laconic.fit(laconic.FedOnce(head=LinearModel()), parties).save(folder)
>>> model = laconic.load_model(folder)"""

_RNG = """\
>>> import numpy as np
>>> rng = np.random.default_rng(0)"""

_TASK = f"""\
{_RNG}
>>> from laconic.tables import Task
>>> task = Task(kind="binary", classes=("no", "yes"), label="churned")
>>> x = rng.normal(size=(200, 4)).astype("float32")
>>> y = (x[:, 0] + x[:, 1] > 0).astype(int)"""

_ATTACK = f"""\
{_RNG}
>>> columns = rng.normal(size=(400, 3))
>>> sent = columns @ rng.normal(size=(3, 3))"""

GROUPED: list[tuple[str, str, str]] = [
    # core
    (
        "core",
        "Budgeted Erasable Exportable Exported Mergeable Tunable",
        """\
>>> import laconic
>>> from laconic.core import Budgeted, Erasable, Exportable, Exported, Mergeable, Tunable
>>> isinstance(laconic.FedOnce(), Budgeted), isinstance(laconic.SplitNN(), Budgeted)
(True, False)
>>> [isinstance(laconic.Analytic(), offered) for offered in (Erasable, Mergeable, Tunable)]
[True, True, True]
>>> isinstance(laconic.FedOnce(), Exportable), Exported(form="linear", weights={}, inputs={"own": (3,)}).rounded
(True, 'float32')""",
    ),
    (
        "core",
        "EVERY_ROW Entry Ledger Noise",
        f"""\
{_FITTED}
>>> from laconic.core import EVERY_ROW, Entry, Ledger, Noise
>>> ledger = fitted.others[0].ledger
>>> isinstance(ledger, Ledger), isinstance(ledger.entries[-1], Entry), EVERY_ROW
(True, True, 'every row')
>>> ledger.entries[-1].words[:31], ledger.entries[-1].noise
('a few numbers for each row, mad', None)
>>> Noise(mechanism="Gaussian", scale=2.0, sensitivity=1.0, unit="one row", caveat="").multiplier
2.0""",
    ),
    (
        "core",
        "Noised unwrap encode decode Blob Question decode_question read_heading",
        """\
>>> import numpy as np
>>> from laconic.core import Blob, Noise, Noised, Question, decode, decode_question, encode, read_heading, unwrap
>>> noise = Noise(mechanism="Gaussian", scale=2.0, sensitivity=1.0, unit="one row", caveat="")
>>> value, noises = unwrap({"sums": Noised(np.ones(3), noise)})
>>> value["sums"].sum(), noises[0].scale
(np.float64(3.0), 2.0)
>>> blob: Blob = encode({"rows": "train", "codes": np.arange(3)})
>>> decode(blob)["codes"].tolist()
[0, 1, 2]
>>> asked = encode(Question(step="send", phase="fit", round=1, payload={"rows": "train"}))
>>> decode_question(asked).payload, read_heading(asked).step
({'rows': 'train'}, 'send')""",
    ),
    (
        "core",
        "Party Carrier Peers Script Ask Opening answer step steps_of task_of",
        f"""\
{_PARTIES}
>>> from laconic.core import Ask, Carrier, Opening, Party, Peers, Script, answer, step, steps_of, task_of
>>> bank = Party("bank", parties.tables["bank"], seed=0)
>>> task_of(bank).kind
'binary'
>>> class Sums(Script):
...     @step(takes=None, gives="the mean of each column", by_row=False)
...     def send(self, party, rows):
...         return party.data.part(rows)[0].mean(axis=0)
>>> list(steps_of(Sums)), Opening((Ask.known(Sums().send, rows="train"),), then="ends").asks[0].step
(['send'], 'send')
>>> from laconic.testing import open_peers
>>> with open_peers(Sums(), bank, [Party("shop", parties.tables["shop"], seed=1)]) as peers:
...     answers = peers.ask(Sums().send, rows="train")
>>> isinstance(peers, Peers), {{name: mean.shape for name, mean in answers.items()}}
(True, {{'shop': (15,)}})
>>> callable(answer), hasattr(Carrier, "carry")
(True, True)""",
    ),
    (
        "core",
        "WireLog Traffic Crossing Watcher watching",
        f"""\
{_FITTED}
>>> from laconic.core import Crossing, Traffic, Watcher, WireLog, watching
>>> isinstance(result.fit, Traffic), result.fit.rounds
(True, 1)
>>> len(WireLog().crossings), Crossing.__struct_fields__[0]
(0, 'phase')
>>> isinstance(Watcher, type), callable(watching)
(True, True)""",
    ),
    # data
    (
        "data",
        "Dataset LABEL_HOLDER Biased Groups Patches Quadrants Rows party_names usual_cut",
        """\
>>> import laconic
>>> from laconic.data import LABEL_HOLDER, Biased, Dataset, Groups, Patches, Quadrants, Rows, party_names, usual_cut
>>> cancer, digits = laconic.load("breast_cancer"), laconic.load("digits")
>>> isinstance(cancer, Dataset), party_names(3), LABEL_HOLDER
(True, ('bank', 'shop', 'insurer'), 'label_holder')
>>> usual_cut(cancer, 2)
Equal(parties=2)
>>> digits.is_image, Quadrants(), Rows(parties=2).parties, Patches(down=2, across=2).down
(False, Quadrants(), 2, 2)
>>> len(laconic.deal(cancer, Biased(alpha=0.5)).tables), Groups(groups={"bank": ("age",)}).groups["bank"]
(2, ('age',))""",
    ),
    (
        "data",
        "HalfTest Iid RandomHoldout Reserve Sizes",
        """\
>>> import laconic
>>> from laconic.data import HalfTest, Iid, RandomHoldout, Reserve, Sizes
>>> cancer = laconic.load("breast_cancer")
>>> reserve: Reserve = RandomHoldout(test=0.2, public=0.2)
>>> hospitals = laconic.deal_rows(cancer, Iid(parties=3), reserve=reserve)
>>> len(hospitals.tables), len(laconic.deal_rows(cancer, Sizes(parties=4, beta=0.5)).tables), HalfTest().keep
(4, 5, 1.0)""",
    ),
    (
        "data",
        "OwnData IdRules read_own",
        """\
>>> import tempfile
>>> from pathlib import Path
>>> from laconic.data import IdRules, OwnData, read_own
>>> file = Path(tempfile.mkdtemp()) / "shop.csv"
>>> _ = file.write_text("customer,spent\\nK-1,3\\nK-2,5\\nK-3,8\\n")
>>> own = read_own("shop", OwnData(source=str(file), key=("customer",), ids=IdRules(case="lower")))
>>> own.table.ids.tolist()
['k-1', 'k-2', 'k-3']""",
    ),
    # deploy
    (
        "deploy",
        "run ledgers_of Release Absence PartyTraffic Look Leakage RebuiltColumn Tuning",
        f"""\
{_FITTED}
>>> from laconic.deploy import Absence, Leakage, Look, PartyTraffic, RebuiltColumn, Release, Tuning, ledgers_of, run
>>> isinstance(result.releases[-1], Release), len(ledgers_of(result)) == len(result.parties)
(True, True)
>>> result.tuning, result.leakage, PartyTraffic.__struct_fields__[:3], callable(run)
(None, (), ('phase', 'step', 'party'), True)
>>> Absence(phase="fit", round=1, step="send", party="shop").party, RebuiltColumn.__struct_fields__[:2]
('shop', ('name', 'r2'))
>>> Look.__struct_fields__[:2], Tuning.__struct_fields__[:2], Leakage.__struct_fields__[:2]
(('bytes', 'rounds'), ('given', 'trials_allowed'), ('party', 'step'))""",
    ),
    (
        "deploy",
        "advise Advice Candidate RunLimits",
        f"""\
{_PARTIES}
>>> from laconic.deploy import Advice, Candidate, RunLimits, advise
>>> found = advise(parties, RunLimits(exchanges=1))
>>> isinstance(found, Advice), isinstance(found.candidates[0], Candidate), found.kind
(True, True, 'vertical')""",
    ),
    (
        "deploy",
        "compare_plans Allowance",
        """\
>>> import tempfile
>>> from pathlib import Path
>>> import laconic
>>> from laconic.deploy import Allowance, compare_plans
>>> data = laconic.DataPlan(name="breast_cancer", parties=2)
>>> plans = [laconic.Plan(method=laconic.Linear(), data=data), laconic.Plan(method=laconic.LocalDp(), data=data)]
>>> results = compare_plans(plans, [0], Path(tempfile.mkdtemp()) / "kept.jsonl")
>>> [one.method["type"] for one in results]
['Linear', 'LocalDp']
>>> Allowance(trials=4, seconds=60).trials
4""",
    ),
    (
        "deploy",
        "train FittedRun roles reach Importance denoise summarise",
        f"""\
{_FITTED}
>>> from laconic.deploy import FittedRun, Importance, denoise, reach, roles, summarise
>>> isinstance(fitted, FittedRun), isinstance(laconic.importance(fitted), Importance)
(True, True)
>>> callable(denoise), callable(summarise)  # for methods with linear heads, such as VimSgd
(True, True)
>>> hub, judge, others = roles(laconic.FedOnce(), parties, 0)
>>> hub.name, judge.name, [one.name for one in others]
('bank', 'bank', ['shop'])
>>> with reach(laconic.FedOnce(), parties) as reached:
...     reached is not None
True""",
    ),
    (
        "deploy",
        "worths",
        f"""\
{_FITTED}
>>> from laconic.deploy import worths
>>> found = worths(fitted, draws=5)
>>> sorted(found), found["shop"].bytes > 0
(['bank', 'shop'], True)""",
    ),
    (
        "deploy",
        "InProcess Processes Forked Faults Runtime open_runtime open_calls Recorder",
        f"""\
{_PARTIES}
>>> from laconic.deploy import Faults, Forked, InProcess, Processes, Recorder, Runtime, open_calls, open_runtime, train
>>> late = InProcess(faults=Faults(late=0.1, seed=3))
>>> train(laconic.Linear(), parties, runtime=late).result.fit.rounds
1
>>> Processes(threads=1).threads, Forked(workers=2).workers, Recorder() is not None, isinstance(Runtime, type)
(1, 2, True, True)
>>> from laconic.core import Party
>>> shop = Party("shop", parties.tables["shop"], seed=0)
>>> with open_runtime((shop,), InProcess()) as carrier, open_calls((shop,)) as calls:
...     carrier is not None and calls is not None
True""",
    ),
    (
        "deploy",
        "PartyFile read_party PartyFolder Policy EpsilonAccount Journal seal_plan",
        """\
>>> import tempfile
>>> from pathlib import Path
>>> from laconic.deploy import EpsilonAccount, Journal, PartyFile, PartyFolder, Policy, read_party, seal_plan
>>> folder = Path(tempfile.mkdtemp())
>>> _ = (folder / "shop.csv").write_text("customer,spent\\nK-1,3\\nK-2,5\\n")
>>> text = 'name = "shop"\\n[data]\\nsource = "shop.csv"\\nkey = "customer"\\n[allow]\\nmethods = ["FedOnce"]\\n'
>>> _ = (folder / "shop.toml").write_text(text)
>>> party = read_party(folder / "shop.toml")
>>> isinstance(party, PartyFile), "FedOnce" in Policy(**party.allow).methods
(True, True)
>>> [isinstance(one, type) for one in (EpsilonAccount, Journal, PartyFolder)], callable(seal_plan)
([True, True, True], True)""",
    ),
    (
        "deploy",
        "Consortium HubAddress write_consortium PartySite open_site provision RunState Watch",
        """\
>>> from laconic.deploy import Consortium, HubAddress, PartySite, RunState, Watch, open_site, provision
>>> from laconic.deploy import write_consortium
>>> plan = Consortium(project="churn", hub=HubAddress(name="bank", address="bank.example"), parties=("shop",))
>>> 'project = "churn"' in write_consortium(plan)
True
>>> [callable(one) for one in (PartySite, Watch, open_site, provision)], RunState().state
([True, True, True, True], 'running')""",
    ),
    (
        "deploy",
        "KeyRing SecretKey make_key save_key read_public trust",
        """\
>>> import tempfile
>>> from pathlib import Path
>>> from laconic.deploy import KeyRing, SecretKey, make_key, read_public, save_key, trust
>>> shop, ring = make_key("shop"), Path(tempfile.mkdtemp())
>>> isinstance(shop, SecretKey), isinstance(KeyRing(own=shop, known={}), KeyRing)
(True, True)
>>> secret, public = save_key(make_key("bank"), ring)
>>> _, other = save_key(shop, Path(tempfile.mkdtemp()))
>>> trust(ring, other, read_public(other).fingerprint).exists()
True""",
    ),
    # inference
    (
        "inference",
        "Model Scores Store Zeros Refit SoloModel Abstain AnyAbsent Reasons explain",
        f"""\
{_SAVED}
>>> from laconic.inference import Abstain, AnyAbsent, Model, Reasons, Refit, Scores, SoloModel, Store, Zeros, explain
>>> isinstance(model, Model), isinstance(model.store, Store)
(True, True)
>>> ids = [str(one) for one in model.store.own.ids[:3]]
>>> ways: list[AnyAbsent] = [Zeros(), Refit(), SoloModel(), Abstain()]
>>> all(isinstance(model.predict_stored(ids, absent=way), Scores) for way in ways)
True
>>> isinstance(explain(model, ids), Reasons)
True""",
    ),
    (
        "inference",
        "About parts_of reach_parts read_new read_new_labels read_labelled export_model",
        f"""\
{_SAVED}
>>> from laconic.inference import About, export_model, parts_of, reach_parts, read_labelled, read_new, read_new_labels
>>> parts = parts_of(folder)
>>> sorted(parts), isinstance(parts["shop"].about, About), parts["shop"].about.hub
(['bank', 'shop'], True, 'bank')
>>> with reach_parts(model.part, parts, {{"shop": parties.tables["shop"].as_new("test")}}) as others:
...     others is not None
True
>>> [callable(one) for one in (read_new, read_new_labels, read_labelled)]
[True, True, True]
>>> sorted(export_model(folder, folder.parent / "onnx"))
['bank', 'shop']""",
    ),
    (
        "inference",
        "make_app Access Limits read_tokens",
        """\
>>> from laconic.inference import Access, Limits, make_app, read_tokens
>>> Access(tokens=read_tokens("c3VwZXJzZWNyZXR0b2tlbjEyMzQ1Njc4OTA=\\n")).certificates
False
>>> Limits(ids=100).ids, callable(make_app)
(100, True)""",
    ),
    # learn
    (
        "learn",
        "Pca WhitenedPca RandomProjection Autoencoder BestEncoder Nat AnyEncoder Exact Swaps AnyAssignment",
        f"""\
{_PARTIES}
>>> from laconic.learn import AnyAssignment, AnyEncoder, Autoencoder, BestEncoder, Exact, LinearModel, Nat, Pca
>>> from laconic.learn import RandomProjection, Swaps, WhitenedPca
>>> ways: list[AnyAssignment] = [Exact(), Swaps(block=25)]
>>> encoders: list[AnyEncoder] = [Pca(dim=4), WhitenedPca(dim=4), RandomProjection(dim=4), BestEncoder(dim=4)]
>>> [laconic.fit(laconic.FedOnce(encoder=one, head=LinearModel()), parties).result.fit.rounds for one in encoders]
[1, 1, 1, 1]
>>> Nat(dim=4, assignment=ways[1]).epochs, Autoencoder(dim=4).dim
(30, 4)""",
    ),
    (
        "learn",
        "Gaussian Orthogonal device_asked on_device torch_generator",
        f"""\
{_RNG}
>>> from laconic.learn import Gaussian, Orthogonal, device_asked, on_device, torch_generator
>>> import laconic
>>> from laconic.methods import MixedRows
>>> MixedRows(matrix=Orthogonal()).matrix, Gaussian(scaled=True).scaled
(Orthogonal(), True)
>>> with on_device("cpu"):
...     device_asked()
'cpu'
>>> torch_generator(rng).device.type
'cpu'""",
    ),
    (
        "learn",
        "Columns Convolutions Drawn FrozenEncoder Photographs PublicRows RandomFourier RandomRelu Whitened",
        """\
>>> import laconic
>>> from laconic.learn import Columns, Convolutions, Drawn, FrozenEncoder, Photographs, PublicRows, RandomFourier
>>> from laconic.learn import RandomRelu, Whitened
>>> hospitals = laconic.deal_rows(laconic.load("breast_cancer"), laconic.Dirichlet(parties=2, beta=1.0))
>>> maps = [Columns(), RandomFourier(width=32), RandomRelu(width=32)]
>>> [laconic.fit(laconic.Analytic(features=one), hospitals).result.fit.rounds for one in maps]
[1, 1, 1]
>>> Convolutions(filters=8, filters_from=Drawn()).filters, Whitened(by=PublicRows()).width, Photographs() is not None
(8, 256, True)
>>> FrozenEncoder.__struct_fields__
('file', 'digest')""",
    ),
    (
        "learn",
        "Mean Median TrimmedMean Krum Adam Yogi TakeAverage Mixture purity",
        f"""\
{_RNG}
>>> import laconic
>>> from laconic.learn import Adam, Krum, Mean, Median, Mixture, TakeAverage, TrimmedMean, Yogi, purity
>>> hospitals = laconic.deal_rows(laconic.load("breast_cancer"), laconic.Dirichlet(parties=4, beta=1.0))
>>> averages = [Mean(), Median(), TrimmedMean(bad=1), Krum(bad=1)]
>>> [laconic.fit(laconic.FedAvg(exchanges=1, average=one), hospitals).result.fit.rounds for one in averages]
[1, 1, 1, 1]
>>> [laconic.FedAvg(update=one).exchanges > 0 for one in (TakeAverage(), Adam(lr=0.1), Yogi())]
[True, True, True]
>>> Mixture(members=(laconic.learn.LinearModel(),)).others
True
>>> purity(np.array([0, 0, 1, 1]), np.array([5, 5, 7, 5]))
0.75""",
    ),
    (
        "learn",
        "Learner Network Logistic AnyClassifier Shard fit_models predict_model classes_of check_model",
        f"""\
{_TASK}
>>> from laconic.learn import AnyClassifier, Learner, Logistic, Network, Shard, Sgd, check_model, classes_of, fit_models
>>> from laconic.learn import predict_model
>>> learner: AnyClassifier = Logistic()
>>> shards: list[Shard] = [(x[:100], y[:100]), (x[100:], y[100:])]
>>> models = fit_models(learner, task, shards, rng)
>>> isinstance(learner, Learner), predict_model(learner, task, models[0], x).shape
(True, (200,))
>>> classes_of(learner, task, models, x).shape
(2, 200)
>>> check_model(learner, task, models[0], (4,), "shop").keys() == models[0].keys()
True
>>> Network(trainer=Sgd(epochs=2)).trainer.epochs
2""",
    ),
    (
        "learn",
        "LinearModel NetModel TreeModel Boosted Forest fit_linear predict_linear",
        f"""\
{_TASK}
>>> import laconic
>>> from laconic.learn import Boosted, Forest, LinearModel, NetModel, Sgd, TreeModel, fit_linear, predict_linear
>>> parties = laconic.deal(laconic.load("breast_cancer"), laconic.Equal(parties=2))
>>> heads = [LinearModel(), NetModel(trainer=Sgd(epochs=2)), Boosted(trees=5), Forest(trees=5)]
>>> all(laconic.fit(laconic.FedOnce(head=one), parties).score().value > 0.5 for one in heads)
True
>>> TreeModel(trees=Boosted(trees=5)).trees.trees
5
>>> predict_linear(task, fit_linear(task, x, y, penalty=1.0), x).shape
(200,)""",
    ),
    (
        "learn",
        "Mlp Cnn Convolution ResNet PatchNet Joint Net Ensemble SummedHeads Attention AnyExtractor make initialise "
        "weights_of",
        f"""\
{_RNG}
>>> from laconic.learn import AnyExtractor, Attention, Cnn, Convolution, Ensemble, Joint, Mlp, Net, PatchNet, ResNet
>>> from laconic.learn import SummedHeads, initialise, make, weights_of
>>> nets: list[Net] = [Mlp(hidden=(8,)), Joint(own=Mlp(hidden=(4,)))]
>>> module = make(nets[0], (4,), 2, rng)
>>> sorted(weights_of(initialise(module, rng)))[:1] != []
True
>>> strided = Cnn(channels=(4, Convolution(8, stride=2)))
>>> image_nets: list[AnyExtractor] = [strided, ResNet(blocks=1), PatchNet(filters=16)]
>>> Ensemble(net=Mlp(), count=3).count, len(image_nets), SummedHeads() is not None, Attention().sharpness
(3, 3, True, None)""",
    ),
    (
        "learn",
        "Sgd Optimiser evaluate fit_supervised predict_supervised",
        f"""\
{_TASK}
>>> import torch
>>> from laconic.learn import Mlp, Optimiser, Sgd, evaluate, fit_supervised, make, predict_supervised
>>> weights = fit_supervised(Mlp(hidden=(8,)), task, [x], y, Sgd(epochs=5), rng)
>>> predict_supervised(Mlp(hidden=(8,)), task, weights, [x]).shape
(200,)
>>> module = make(Mlp(hidden=(8,)), (4,), 2, rng)
>>> evaluate(module, [torch.from_numpy(x)]).shape
torch.Size([200, 2])
>>> callable(Optimiser)
True""",
    ),
    (
        "learn",
        "FixMatch FixMatchTab AnyLocal Adaptive Confident Fixed Soft",
        """\
>>> import laconic
>>> from laconic.learn import Adaptive, AnyLocal, Confident, FixMatch, FixMatchTab, Fixed, Soft
>>> local: AnyLocal = FixMatchTab(steps=50, threshold=Soft())
>>> parties = laconic.deal(laconic.load("breast_cancer"), laconic.Equal(parties=2))
>>> laconic.fit(laconic.OneShot(local=local), parties).result.fit.rounds
2
>>> FixMatch(threshold=Fixed(level=0.9)).threshold.level, Adaptive().momentum, Confident(level=0.8).level
(0.9, 0.99, 0.8)""",
    ),
    # methods
    (
        "methods",
        "Check Contribution ModelCheck Gradients SendLabels Socket MixedRows Admm",
        """\
>>> import laconic
>>> from laconic.methods import Admm, Check, Contribution, Gradients, MixedRows, ModelCheck, SendLabels, Socket
>>> laconic.FedOnce(check=Check(leave_out=True)).check.leave_out
True
>>> laconic.FedAvg(check=ModelCheck(judged=True)).check.judged
True
>>> laconic.OneShot(guide=SendLabels()).guide, Gradients(numbers=4).numbers
(SendLabels(), 4)
>>> MixedRows().secrets, Socket().tls, Admm.__name__, Contribution.__struct_fields__[0]
('seed', None, 'Admm', 'party')""",
    ),
    (
        "methods",
        "SecureSums Prox Majority PooledShares ServerShares batch_rows labelled",
        """\
>>> import laconic
>>> from laconic.methods import Majority, PooledShares, Prox, SecureSums, ServerShares, batch_rows, labelled
>>> hospitals = laconic.deal_rows(laconic.load("breast_cancer"), laconic.Dirichlet(parties=3, beta=1.0))
>>> laconic.fit(laconic.Analytic(sums=SecureSums()), hospitals).result.fit.rounds >= 1
True
>>> [laconic.FedKt(count=one).count for one in (Majority(), PooledShares(), ServerShares())]
[Majority(), PooledShares(), ServerShares()]
>>> batch_rows(10, 4, seed=0, epoch=0, number=0).shape, Prox(mu=0.1).mu
((4,), 0.1)
>>> from laconic.core import Party
>>> north = [name for name in hospitals.tables if name != hospitals.hub][0]
>>> x, y = labelled(Party(north, hospitals.tables[north], seed=0), "train")
>>> len(x) == len(y)
True""",
    ),
    # plan
    (
        "plan",
        (
            "to_plain change_plan draft read_value read_plan_file plan_fingerprint "
            "open_releases refuse_unkept Journalled AnyRuntime"
        ),
        """\
>>> import tempfile
>>> from pathlib import Path
>>> import laconic
>>> from laconic.plan import AnyRuntime, Journalled, change_plan, draft, open_releases, plan_fingerprint, read_plan_file
>>> from laconic.plan import read_value, refuse_unkept, to_plain
>>> plan = laconic.Plan(method=laconic.FedOnce(), data=laconic.DataPlan(name="breast_cancer"))
>>> changed = change_plan(to_plain(plan), [("method.encoder.type", "Pca"), ("seed", read_value("3"))])
>>> changed.seed, type(changed.method.encoder).__name__, draft(laconic.FedOnce)["method"]["type"]
(3, 'Pca', 'FedOnce')
>>> file = Path(tempfile.mkdtemp()) / "plan.toml"
>>> _ = file.write_text(laconic.write_plan(changed))
>>> plan_fingerprint(read_plan_file(file)) == plan_fingerprint(changed), refuse_unkept(changed)
(True, None)
>>> kept: AnyRuntime = Journalled(folder=str(file.parent))
>>> len(open_releases(plan.method)) > 0
True""",
    ),
    # privacy
    (
        "privacy",
        "Pld Rdp Moments SimpleDivision AnyAccountant Event Events mu_of epsilon_of compose Demand Price",
        """\
>>> import laconic
>>> from laconic.privacy import AnyAccountant, Demand, Event, Events, Moments, Pld, Rdp, SimpleDivision
>>> from laconic.privacy import compose, epsilon_of
>>> from laconic.privacy import Price, mu_of
>>> released: Events = {Event("gaussian", multiplier=4.0): 1}
>>> accountants: list[AnyAccountant] = [Pld(), Rdp(), Moments(), SimpleDivision()]
>>> [round(one.epsilon({"shop": released}, 1e-5), 2) for one in accountants[:2]]
[0.93, 1.01]
>>> round(epsilon_of(compose([0.25, 0.25]), 1e-5), 2), round(mu_of(1.0, 1e-5), 3), Demand(rate=1.0, answers=2).answers
(1.36, 0.268, 2)
>>> from laconic.core import Ledger
>>> isinstance(laconic.price({"shop": Ledger()}, delta=1e-5), Price)
True""",
    ),
    (
        "privacy",
        "Budget DpPca DpNat Codebook PublicProjection PrivateEncoder",
        f"""\
{_PARTIES}
>>> from laconic.privacy import Budget, Codebook, DpNat, DpPca, DpSgd, PrivateEncoder, PublicProjection
>>> private: PrivateEncoder = DpPca(dim=4)
>>> method = laconic.FedOnce(encoder=private, trainer=DpSgd(epochs=2))
>>> model = laconic.fit(method, parties, budget=laconic.Budget(epsilon=4.0))
>>> 0 < model.result.privacy.by_party["shop"] <= 4.0
True
>>> Budget(epsilon=4.0).delta  # of a mechanism; the budget of a whole run is laconic.Budget
1e-05
>>> Codebook(words=16).words, DpNat(dim=4).dim, PublicProjection(dim=4).dim
(16, 4, 4)""",
    ),
    (
        "privacy",
        (
            "LocalGaussian RowsOnce PrivateSteps BatchClip AsPublished ClippedGaussian "
            "Perturb PureNoise Encrypted RandomisedResponse"
        ),
        """\
>>> import laconic
>>> from laconic.privacy import AsPublished, BatchClip, ClippedGaussian, Encrypted, LocalGaussian, Perturb, PrivateSteps
>>> from laconic.privacy import PureNoise, RandomisedResponse, RowsOnce
>>> laconic.LocalDp(noise=LocalGaussian(epsilon=1.0)).noise.epsilon
1.0
>>> [noise(clip=1.0, sigma=2.0).sigma for noise in (RowsOnce, BatchClip, AsPublished)]
[2.0, 2.0, 2.0]
>>> PrivateSteps(clip=1.0, sigma=2.0, gradient_sigma=1.0).rate, ClippedGaussian(sigma=1.0).clip, Encrypted().packed
(0.25, 1.0, True)
>>> Perturb(scale=0.1).rows, PureNoise(scale=1.0).rows, RandomisedResponse(epsilon=1.0).epsilon
('all', 'training', 1.0)""",
    ),
    (
        "privacy",
        "GaussianSums GaussianMoments GaussianUpdates GaussianColumns ColumnBounds DpSgd",
        """\
>>> import laconic
>>> from laconic.privacy import ColumnBounds, DpSgd, GaussianColumns, GaussianMoments, GaussianSums, GaussianUpdates
>>> hospitals = laconic.deal_rows(laconic.load("breast_cancer"), laconic.Dirichlet(parties=3, beta=1.0))
>>> model = laconic.fit(laconic.Analytic(privacy=GaussianSums()), hospitals, budget=laconic.Budget(epsilon=2.0))
>>> 0 < model.result.privacy.epsilon <= 2.0
True
>>> GaussianMoments(sigma=1.0).sigma, GaussianUpdates(clip=2.0).clip, DpSgd(sigma=1.0, epochs=3).epochs
(1.0, 2.0, 3)
>>> GaussianColumns(share=0.2).share, len(ColumnBounds.__struct_fields__)
(0.2, 2)""",
    ),
    (
        "privacy",
        "L0 L1 L2 Level GaussianVotes LaplaceVotes Sure",
        """\
>>> import laconic
>>> from laconic.privacy import L0, L1, L2, GaussianVotes, LaplaceVotes, Level, Sure
>>> level: Level = L1(noise=GaussianVotes(sigma=20.0, sure=Sure(least=0.7)))
>>> laconic.FedKt(level=level).level.noise.sigma, laconic.FedKt(level=L0()).level
(20.0, L0())
>>> L2(noise=LaplaceVotes(gamma=0.1)).noise.gamma
0.1""",
    ),
    (
        "privacy",
        "Randomness SecureRandomness SeededRandomness poisson_sample",
        f"""\
{_RNG}
>>> from laconic.privacy import Randomness, SecureRandomness, SeededRandomness, poisson_sample
>>> studied: Randomness = SeededRandomness(rng)
>>> poisson_sample(1000, 0.1, studied).numel() < 200, SecureRandomness() is not None
(True, True)""",
    ),
    # report
    (
        "report",
        "Compared commands_for rows_of plot_bytes plot_rounds plot_wire plot_roc plot_predictions",
        f"""\
{_PARTIES}
>>> from laconic.report import Compared, commands_for, plot_bytes, plot_predictions, plot_roc, plot_rounds
>>> from laconic.report import plot_wire, rows_of
>>> table = laconic.compare([laconic.Linear(), laconic.LocalDp()], parties)
>>> isinstance(table, Compared), len(table.to_frame())
(True, 4)
>>> [type(draw(table.results)).__name__ for draw in (plot_bytes, plot_rounds, plot_roc, plot_predictions)]
['Figure', 'Figure', 'Figure', 'Figure']
>>> type(plot_wire(table.results[0])).__name__, isinstance(commands_for(table.results), dict), callable(rows_of)
('Figure', True, True)""",
    ),
    (
        "report",
        "plot_importance plot_learning plot_rebuilt show_card show_price track",
        f"""\
{_SAVED}
>>> from laconic.report import plot_importance, plot_learning, plot_rebuilt, show_card, show_price, track
>>> show_card(card) is not None
True
>>> measured = laconic.compare([laconic.FedOnce(head=LinearModel())], parties, leakage=True)
>>> type(plot_rebuilt(measured.results)).__name__
'Figure'
>>> [callable(one) for one in (plot_importance, plot_learning, show_price, track)]
[True, True, True, True]""",
    ),
    # audit
    (
        "audit",
        "audit Finding attack_columns compare_widths losses_of",
        f"""\
{_PARTIES}
>>> from laconic.audit import Finding, attack_columns, audit, compare_widths, losses_of
>>> from laconic.learn import LinearModel
>>> findings = audit(laconic.FedOnce(head=LinearModel()), parties, known=20)
>>> isinstance(findings[0], Finding), max(one.success - one.baseline for one in findings) > 0.2
(True, True)
>>> [callable(one) for one in (attack_columns, compare_widths, losses_of)]
[True, True, True]""",
    ),
    (
        "audit",
        "LinearAttacker MlpAttacker TreesAttacker reconstruct rebuild_columns best_correlations share_recovered",
        f"""\
{_ATTACK}
>>> from laconic.audit import LinearAttacker, MlpAttacker, TreesAttacker, best_correlations, rebuild_columns
>>> from laconic.audit import reconstruct
>>> from laconic.audit import share_recovered
>>> reconstruct(sent, columns, 50, rng, attacker=LinearAttacker()).success > 0.99
True
>>> len(rebuild_columns(sent, columns, 50, rng, (LinearAttacker(), TreesAttacker(trees=5))))
3
>>> best_correlations(columns, columns).round(2).tolist(), float(share_recovered(columns, columns))
([1.0, 1.0, 1.0], 1.0)
>>> MlpAttacker().net.hidden
(128,)""",
    ),
    (
        "audit",
        "commonest compare_labels infer_labels labels_read_off gradients_sent row_losses",
        f"""\
{_TASK}
>>> from laconic.audit import commonest, compare_labels, gradients_sent, infer_labels, labels_read_off, row_losses
>>> gradients = np.where(y[:, None] == 1, 1.0, -1.0) * np.ones((200, 3))
>>> infer_labels(gradients, y, rng).success > commonest(y)
True
>>> float(labels_read_off(gradients, y, 2, rng)), compare_labels(y, y).success
(1.0, 1.0)
>>> row_losses(task, np.full(200, 0.5), y).round(2)[0], callable(gradients_sent)
(np.float64(0.69), True)""",
    ),
    (
        "audit",
        (
            "threshold_attack likelihood_ratio_attack canary_attack epsilon_lower_bound "
            "rows_game pca_game sgd_game encoder_game"
        ),
        f"""\
{_RNG}
>>> from laconic.audit import canary_attack, encoder_game, epsilon_lower_bound, likelihood_ratio_attack, pca_game
>>> from laconic.audit import rows_game, sgd_game, threshold_attack
>>> from laconic.privacy import ClippedGaussian
>>> threshold_attack(rng.normal(0, 1, 300), rng.normal(2, 1, 300)).success > 0.8
True
>>> claimed = 5.0
>>> canary_attack(rows_game(ClippedGaussian(sigma=1.0)), claimed, 1e-5, 2000, rng, what="noised rows").success < claimed
True
>>> float(epsilon_lower_bound(rng.normal(3, 1, 2000), rng.normal(0, 1, 2000), 1e-5)) > 1
True
>>> [callable(one) for one in (likelihood_ratio_attack, encoder_game, pca_game, sgd_game)]
[True, True, True, True]""",
    ),
    (
        "audit",
        "unmix unmask_single unmask_numeric_label pair_codes match_by_leverage recover_from_known_rows",
        f"""\
{_ATTACK}
>>> from laconic.audit import match_by_leverage, pair_codes, recover_from_known_rows, share_recovered
>>> from laconic.audit import unmask_numeric_label
>>> from laconic.audit import unmask_single, unmix
>>> found = recover_from_known_rows(sent, columns[:10], np.arange(10))
>>> float(share_recovered(found, columns)) > 0.99
True
>>> unmix(sent, rng).shape[0], len(match_by_leverage(sent, columns[:5], columns))
(400, 2)
>>> [callable(one) for one in (unmask_single, unmask_numeric_label, pair_codes)]
[True, True, True]""",
    ),
    # align
    (
        "align",
        "ExactMatch AgreedIds PrivateMatch SameColumns",
        """\
>>> import laconic
>>> from laconic.align import AgreedIds, ExactMatch, PrivateMatch, SameColumns
>>> import pandas
>>> bank = pandas.DataFrame({"id": range(80), "age": [20 + n % 50 for n in range(80)]})
>>> bank["churned"] = [n % 3 == 0 for n in range(80)]
>>> shop = pandas.DataFrame({"id": range(10, 80), "spent": [n % 7 for n in range(70)]})
>>> parties = laconic.federation({"bank": bank, "shop": shop}, id="id", label="churned")
>>> from laconic.deploy import train
>>> train(laconic.Linear(), parties, align=ExactMatch(test=0.3)).result.data["alignment"]["cuts"]["test"]
21
>>> AgreedIds(test=0.1).test, PrivateMatch(pairs=True).pairs, SameColumns() is not None
(0.1, True, True)""",
    ),
    # testing
    (
        "testing",
        "small_federation small_horizontal small_overlap bare_party open_peers find_leak",
        """\
>>> from laconic.core import encode
>>> from laconic.testing import bare_party, find_leak, open_peers, small_federation, small_horizontal, small_overlap
>>> small_federation("binary").kind, small_horizontal("binary").kind, small_overlap().kind, bare_party().name
('vertical', 'horizontal', 'vertical', 'bank')
>>> table = small_federation("binary").tables["shop"]
>>> find_leak(encode(table.part("train")[0]), table) is not None, callable(open_peers)
(True, True)""",
    ),
    (
        "testing",
        "drawn_times rows_held_out",
        """\
>>> from laconic.testing import drawn_times, rows_held_out
>>> drawn = drawn_times(90)
>>> shares = {"north": (drawn.raw[:30], drawn.y[:30]), "south": (drawn.raw[30:60], drawn.y[30:60])}
>>> names = [one.name for one in drawn.columns]
>>> parties = rows_held_out(shares, (drawn.raw[60:], drawn.y[60:]), names, drawn.task)
>>> parties.kind, parties.peers, drawn.task.event
('horizontal', ('north', 'south'), 'died')""",
    ),
    (
        "testing",
        "BadParty flip_labels leave_out",
        """\
>>> import laconic
>>> from laconic.testing import BadParty, flip_labels, leave_out, small_horizontal
>>> parties = small_horizontal("binary")
>>> one = [name for name in parties.tables if name != parties.hub][0]
>>> flip_labels(parties, one).tables.keys() == parties.tables.keys(), one in leave_out(parties, one).tables
(True, False)
>>> BadParty(one, "noisy").how
'noisy'""",
    ),
    (
        "testing",
        (
            "draw messy_federations MessyFederation Truth PartyTruth CellTruth Misread "
            "compare_reading compare_new_rows frame_of "
            "write_public"
        ),
        """\
>>> import tempfile
>>> from pathlib import Path
>>> import laconic
>>> from laconic.testing import CellTruth, MessyFederation, Misread, PartyTruth, Truth, compare_new_rows
>>> from laconic.testing import compare_reading
>>> from laconic.testing import draw, frame_of, messy_federations, write_public
>>> messy = draw(6, most_rows=200, most_columns=8)
>>> paths = messy.write(Path(tempfile.mkdtemp()))
>>> compare_reading(laconic.from_files(paths, id=messy.id, label=messy.label), messy.truth)
>>> isinstance(messy, MessyFederation), isinstance(messy.truth, Truth), issubclass(Misread, Exception)
(True, True, True)
>>> one = next(iter(messy.truth.parties.values()))
>>> isinstance(one, PartyTruth), isinstance(next(iter(one.columns.values())), CellTruth)
(True, True)
>>> [callable(name) for name in (messy_federations, compare_new_rows, frame_of, write_public)]
[True, True, True, True]""",
    ),
    # tables
    (
        "tables",
        "Table Column Recipe Scaled fit_recipe apply_recipe fingerprint",
        f"""\
{_RNG}
>>> from laconic.tables import Column, Recipe, Scaled, Table, apply_recipe, fingerprint, fit_recipe
>>> raw, columns = rng.normal(5, 2, size=(50, 2)), (Column(name="age"), Column(name="spent"))
>>> recipe = fit_recipe(raw, columns, np.arange(50))
>>> isinstance(recipe, Recipe), isinstance(recipe.parts[0], Scaled)
(True, True)
>>> apply_recipe(recipe, raw).std(axis=0).round(1).tolist()
[1.0, 1.0]
>>> table = Table(raw, columns)
>>> fingerprint(table) == fingerprint(Table(raw, columns))
True""",
    ),
    (
        "tables",
        "Task Score metrics headline Quality Bin Tried",
        """\
>>> import numpy as np
>>> from laconic.tables import Bin, Quality, Score, Task, Tried, headline, metrics
>>> task = Task(kind="regression", label="spent")
>>> values = metrics(task, np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0]))
>>> score = headline(task, values)
>>> isinstance(score, Score), score.metric, round(score.value, 2)
(True, 'rmse', 0.58)
>>> Quality().bins, Bin.__struct_fields__[:2], Tried.__struct_fields__[0]
((), ('predicted', 'true'), 'model')""",
    ),
    (
        "tables",
        "events_of pairs_of LabelScale deviances",
        """\
>>> import numpy as np
>>> from laconic.tables import LabelScale, deviances, events_of, pairs_of
>>> times = np.array([3.0, -5.0, 8.0])  # Below 0 where the event had not come by then.
>>> events_of(times).tolist(), pairs_of(times, risk=np.array([0.9, 0.2, 0.1])).right.tolist()
([True, False, True], [2.0, 1.0, 1.0])
>>> deviances(np.array([2.0]), np.array([2.0])).tolist(), LabelScale(mean=5.0, spread=2.0).rows
([0.0], 0)""",
    ),
]
"""A package, names of it, and an example in which each of them occurs."""

PACKAGE_EXAMPLES: dict[tuple[str, str], str] = {
    (package, name): text for package, names, text in GROUPED for name in names.split()
}
"""The example of a name, by its package and itself."""
