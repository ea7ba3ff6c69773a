"""Hospitals with other patients that send envelopes: the same scores, bytes and models as in one process."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from laconic import Plan, execute, load_model, write_plan
from laconic.cli import main
from laconic.deploy import read_public
from laconic.deploy.coordinator import host
from laconic.deploy.party_context import open_context
from laconic.deploy.sealed_answers import answer_envelope, seal_plan
from laconic.deploy.transports.envelopes.keys import add_key, make_key, save_key
from laconic.errors import DataError, PlanError, Waiting
from tests.data.hospitals import NAMES, hospitals, open_rows, visits
from tests.deploy.test_sites_apart import ALLOWED, METHODS, OF_NUMBERS, equal, named, plan_of

SCHEMA = 'label = "diagnosis"\nclasses = ["benign", "malignant"]\n' + "".join(
    f"[columns.size{at}]\nmean = {mean}\nspread = {spread}\n"
    for at, (mean, spread) in enumerate([(14, 3.5), (19, 4.3), (92, 24), (650, 350), (0.1, 0.014), (0.1, 0.05)])
)


SOME = [one if named(one) == "Analytic" else pytest.param(one, marks=pytest.mark.slow) for one in METHODS]
"""One method is quick enough for every run of the tests."""


class Post:
    """Folders of everybody, keys that all know, and what is carried between them."""

    def __init__(self, folder: Path, hub: str = "registry", frames=None, more: str = "") -> None:
        self.folder, self.hub = folder, hub
        self.names = tuple(dict.fromkeys((hub, *NAMES)))
        keys = {name: make_key(name) for name in self.names}
        for name in self.names:
            place = folder / name
            (place / "inbox").mkdir(parents=True)
            save_key(keys[name], place / "keys")
            for other in self.names:
                if other != name:
                    add_key(place / "keys", keys[other].public)
            open_rows().drop(columns="patient").to_csv(place / "open.csv", index=False)
            (place / "schema.toml").write_text(SCHEMA)
            rows = '[data]\nsource = "rows.csv"\nkey = "patient"\nlabel = "diagnosis"\n' + more if name in NAMES else ""
            text = f'name = "{name}"\nseed = "plan"\n{rows}[allow]\nmethods = {ALLOWED!r}\n'
            (place / "party.toml").write_text(text)
            if name in NAMES:
                (frames or hospitals())[name].to_csv(place / "rows.csv", index=False)
        self.files = {name: str(folder / name / "party.toml") for name in NAMES}

    def plan(self, method, **settings) -> Plan:
        return self.write(plan_of(method, None, hub=self.hub, **settings))

    def write(self, plan: Plan) -> Plan:
        (self.folder / "plan.toml").write_text(write_plan(plan))
        return plan

    def context(self, name: str):
        return open_context(self.folder / "plan.toml", self.folder / name / "party.toml", self.folder / name / "keys")

    def run(self, *, opening: bool = True):
        """Seal, host and answer until there is a result; returns it, and how many envelopes each way."""
        inbox, up, down = self.folder / self.hub / "inbox", 0, 0
        others = [name for name in NAMES if name != self.hub]
        if opening:
            for name in others:
                seal_plan(self.context(name), inbox / f"{name}-0.envelope")
                up += 1
        while True:
            try:
                return host(self.context(self.hub), inbox), up, down
            except Waiting as waiting:
                for name in waiting.names:
                    (asked,) = (inbox / "questions").glob(f"{name}-*.envelope")
                    down, up = down + 1, up + 1
                    answer_envelope(self.context(name), asked, inbox / f"{name}-{up}.envelope")


def in_process(post, plan):
    data = {"files": post.files, "hub": 0}
    return execute(msgspec.structs.replace(plan, data=msgspec.structs.replace(plan.data, **data)))


@pytest.mark.parametrize("method", SOME, ids=named)
def test_envelopes_give_what_one_process_gives(tmp_path, method):
    post = Post(tmp_path)
    plan = post.plan(method)
    result, _, _ = post.run()
    assert equal(result, in_process(post, plan))


@pytest.mark.parametrize("method", OF_NUMBERS, ids=named)
def test_counts_are_learnt_by_envelope_as_in_one_process(tmp_path, method):
    post = Post(tmp_path, frames=visits(), more='task = "regression"\n')
    plan = post.plan(method)
    assert equal(post.run()[0], in_process(post, plan))


def test_a_schema_says_the_scale_of_a_count_or_a_net_cannot_learn_it(tmp_path):
    post = Post(tmp_path, hub="north", frames=visits(), more='task = "regression"\n')
    plan = post.plan(METHODS[0], schema="schema.toml")
    numbers = SCHEMA.replace('classes = ["benign", "malignant"]\n', "")
    for text, fits in ((numbers, False), ("label_mean = 60.0\nlabel_spread = 20.0\n" + numbers, True)):
        for name in NAMES:
            (tmp_path / name / "schema.toml").write_text(text)
        if fits:
            assert in_process(post, plan).metrics["rmse"] < 60
        else:
            with pytest.raises(DataError, match="say label_mean and label_spread in the schema"):
                in_process(post, plan)


ONE_EXCHANGE = [
    METHODS[9],
    *(pytest.param(one, marks=pytest.mark.slow) for one in METHODS if named(one) in ("Analytic", "Pfnm", "FedPft")),
]


@pytest.mark.parametrize("method", ONE_EXCHANGE, ids=named)
def test_with_a_schema_one_exchange_is_one_envelope_per_hospital(tmp_path, method):
    post = Post(tmp_path, hub="north")
    plan = post.plan(method, schema="schema.toml")
    result, up, down = post.run()
    # One envelope up to learn from; then the model goes home, and the score comes back.
    assert (up, down) == (2 + 2, 2)
    assert equal(result, in_process(post, plan))


@pytest.mark.slow
def test_agreeing_by_an_earlier_envelope_takes_one_more(tmp_path):
    post = Post(tmp_path)
    post.plan(METHODS[5])
    _, up, down = post.run()
    assert (up, down) == (3 + 3 + 3, 3 + 3)


@pytest.mark.slow
def test_each_hospital_takes_the_model_from_its_last_envelope(tmp_path):
    post = Post(tmp_path, hub="north")
    post.plan(METHODS[0])
    post.run()
    new, found = open_rows(30).drop(columns="patient"), set()
    for name in NAMES:
        words = ("home", tmp_path / "plan.toml", "--party", post.files[name], "-o", tmp_path / name / "model")
        said = CliRunner().invoke(main, list(map(str, words)))
        assert said.exit_code == 0, said.output
        found.add(load_model(tmp_path / name / "model" / name).predict(new).predictions.tobytes())
    assert len(found) == 1


def test_only_the_one_that_hosts_by_the_plan_can_host(tmp_path):
    post = Post(tmp_path)
    post.plan(METHODS[0])
    with pytest.raises(PlanError, match=r"by this plan \(data.hub\) registry runs the server"):
        host(post.context("north"), tmp_path / "north" / "inbox")
    with pytest.raises(PlanError, match="registry hosts by this plan"):
        seal_plan(post.context("registry"), None)
    (tmp_path / "west" / "party.toml").write_text('name = "east"\n')
    save_key(make_key("east"), tmp_path / "west" / "keys")
    with pytest.raises(PlanError, match="is of east, but the plan's parties are registry, north, south, west"):
        post.context("west")
    assert read_public(tmp_path / "north" / "keys" / "north.public").name == "north"
