"""Hospitals join a model between machines by one upload, and the others get it again after one left."""

import shutil

import msgspec
import numpy as np
import pytest

from laconic import Analytic, DataPlan, FedAvg, FedKt, FedPft, FedTrees, Plan, Result, execute, load_model, write_plan
from laconic.core import encode
from laconic.errors import DataError, LaconicError, PartyAbsent, PlanError, Refused
from laconic.inference.bundle import load_part
from laconic.inference.merge import forget, forgotten, members_of
from laconic.inference.update import change_between, forget_runs, save_grown
from laconic.learn import Logistic
from laconic.plan import plan_fingerprint
from tests.data.hospitals import NAMES, hospitals, open_rows
from tests.deploy.sites import agree, host_again, joining, leaving, lines, party_in
from tests.deploy.test_envelopes_apart import SCHEMA
from tests.deploy.test_sites_apart import MODEL, call, furnish, host, named, plan_of

KT = FedKt(model=Logistic(), partitions=1, teachers=2)
TWO = NAMES[:2]


def plan_for(names, method, **settings):
    """A plan that names these hospitals alone."""
    public = {"public": "open.csv"} if "public" in method.uses else {}
    return Plan(method=method, data=DataPlan(files=dict.fromkeys(names, "party.toml"), **public | settings))


def trained(tmp_path, method, names=TWO):
    """Sites of all, and the server's own folder of a model that two hospitals trained."""
    sites = furnish(tmp_path)
    host(sites, plan_for(names, method), run="first")
    assert call("home", sites["registry"].folder, "-o", tmp_path / "model").exit_code == 0
    return sites, tmp_path / "model" / "server"


def change(sites, folder, growth, plan=None, line=None):
    """Have the model changed as the command does, but for the engine, and saved."""
    if plan is not None:
        for site in sites.values():
            (site.folder / "plans" / "with-all.toml").write_text(write_plan(plan))

    def hosted(run):
        return host_again(sites, run, line=line)

    model, found = change_between(sites["registry"], load_part(folder), growth, hosted, plan)
    save_grown(model)
    return found


def predictions(folder):
    return load_model(folder).predict(open_rows(40).drop(columns="patient")).predictions


def brought(sites, name, tmp_path):
    """What a hospital predicts with the model that it takes home last."""
    said = call("home", sites[name].folder, "-o", tmp_path / "home", "--replace")
    assert said.exit_code == 0, said.output
    return predictions(tmp_path / "home" / name)


def test_a_hospital_joins_by_one_upload_and_the_model_is_that_of_all_from_the_start(tmp_path):
    sites, folder = trained(tmp_path, KT)
    before = predictions(folder)
    found = change(sites, folder, joining("west"), plan_for(NAMES, KT))
    asked = {(one.party, one.step) for one in found.wire if one.phase == "fit"}
    assert asked == {("west", "give_students")}
    everybody = furnish(tmp_path / "all")
    host(everybody, plan_for(NAMES, KT))
    assert call("home", everybody["registry"].folder, "-o", tmp_path / "of-all").exit_code == 0
    assert (predictions(folder) == predictions(tmp_path / "of-all" / "server")).all()
    assert (before != predictions(folder)).any()
    for name in NAMES:
        assert (brought(sites, name, tmp_path) == predictions(folder)).all()
    # The others only got columns and model; nothing made from their rows left them but scores and digests.
    given = {one.step for one in found.releases if one.party == "north"}
    assert given <= {"show_fingerprint", "take_model"}
    assert set(found.statements) == set(NAMES)
    assert found.data["joined"] == ["west"]


@pytest.mark.parametrize("method", [FedTrees(), Analytic(), FedPft()], ids=named)
def test_closed_forms_and_trees_let_a_hospital_join_between_machines(tmp_path, method):
    sites, folder = trained(tmp_path, method)
    before = predictions(folder)
    change(sites, folder, joining("west"), plan_for(NAMES, method))
    assert np.abs(predictions(folder) - before).max() > 1e-4
    assert (brought(sites, "west", tmp_path) == predictions(folder)).all()
    assert set(members_of(load_part(folder), method)) == set(NAMES)


def test_a_hospital_that_runs_the_server_beside_its_own_rows_can_let_another_join(tmp_path):
    sites = furnish(tmp_path, hub="north")
    host(sites, plan_for(TWO, KT), hub="north", run="first")
    assert call("home", sites["north"].folder, "-o", tmp_path / "model").exit_code == 0
    plan = plan_for(NAMES, KT)
    for site in sites.values():
        (site.folder / "plans" / "with-all.toml").write_text(write_plan(plan))
    model, _ = change_between(
        sites["north"],
        load_model(tmp_path / "model").part,
        joining("west"),
        lambda run: host_again(sites, run, "north"),
        plan,
    )
    save_grown(model)
    assert set(members_of(load_part(tmp_path / "model" / "server"), KT)) == set(NAMES)
    for name in NAMES:
        assert (brought(sites, name, tmp_path) == predictions(tmp_path / "model" / "server")).all()


def test_with_a_schema_who_joins_compares_it_and_a_schema_that_changed_is_refused(tmp_path):
    method, settings = FedTrees(), {"schema": "schema.toml"}
    sites = furnish(tmp_path, allow=["FedTrees", "AgreedColumns"])
    for site in sites.values():
        (site.folder / "schema.toml").write_text(SCHEMA)
    host(sites, plan_for(TWO, method, **settings), run="first")
    call("home", sites["registry"].folder, "-o", tmp_path / "model")
    folder, plan = tmp_path / "model" / "server", plan_for(NAMES, method, **settings)
    (sites["west"].folder / "schema.toml").write_text(SCHEMA.replace("mean = 14\n", "mean = 15\n"))
    with pytest.raises(DataError, match="west does not have the columns, classes or public rows"):
        change(sites, folder, joining("west"), plan)
    for name in ("registry", "west"):
        (sites[name].folder / "schema.toml").write_text(SCHEMA.replace("mean = 14\n", "mean = 15\n"))
    shutil.rmtree(next((sites["registry"].folder / "runs").glob("change-*")))
    with pytest.raises(DataError, match="the schema is not the one that the model was trained with"):
        change(sites, folder, joining("west"), plan)
    for name in ("registry", "west"):
        (sites[name].folder / "schema.toml").write_text(SCHEMA)
        shutil.rmtree(next((sites[name].folder / "runs").glob("change-*")))
    change(sites, folder, joining("west"), plan)
    assert (brought(sites, "west", tmp_path) == predictions(folder)).all()


def test_joining_goes_on_where_it_was_cut_off_and_nothing_is_asked_twice(tmp_path):
    sites, folder = trained(tmp_path, KT)
    plan = plan_for(NAMES, KT)
    with pytest.raises(LaconicError):
        change(sites, folder, joining("west"), plan, lines(sites, cut_after=12))
    found = change(sites, folder, joining("west"), plan)
    (run,) = [one for one in (sites["west"].folder / "runs").iterdir() if one.name.startswith("change-")]
    entries = party_in(sites["west"], run.name).ledger.entries
    assert [one.times for one in entries if one.step == "give_students"] == [1]
    assert found.data["joined"] == ["west"]


def test_joining_is_held_to_the_rules_of_who_joins(tmp_path):
    sites, folder = trained(tmp_path, KT)
    before = predictions(folder)
    path = sites["west"].folder / "party.toml"
    path.write_text(path.read_text().replace("'FedKt'", "'FedAvg'"))
    with pytest.raises(Refused, match="west does not allow FedKt"):
        change(sites, folder, joining("west"), plan_for(NAMES, KT))
    assert (predictions(folder) == before).all()


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        (lambda rows: rows.assign(size0=rows["size0"] * 1000), "as if in another unit"),
        (lambda rows: rows.drop(columns="size1"), "party 'west' has no column 'size1'"),
        (lambda rows: rows.assign(size1="wide"), "column 'size1' holds numbers at 'the model' and text at 'west'"),
        (lambda rows: rows.assign(diagnosis=rows["size0"]), "looks like a quantity at 'west'"),
        (lambda rows: rows.iloc[:0], "west"),
        (lambda rows: rows.assign(diagnosis="unclear"), "unclear"),
    ],
    ids=["unit", "column", "type", "label", "empty", "class"],
)
def test_odd_rows_of_who_joins_are_refused_in_its_own_log_and_the_model_stays(tmp_path, odd, words):
    method = FedTrees()
    frames = hospitals()
    sites = furnish(tmp_path, frames=frames | {"west": odd(frames["west"])})
    host(sites, plan_for(TWO, method), run="first")
    call("home", sites["registry"].folder, "-o", tmp_path / "model")
    before = predictions(tmp_path / "model" / "server")
    with pytest.raises(LaconicError, match="west"):
        change(sites, tmp_path / "model" / "server", joining("west"), plan_for(NAMES, method))
    assert words in sites["west"].log.read_text()
    assert (predictions(tmp_path / "model" / "server") == before).all()


def test_a_method_that_averages_a_plan_of_other_settings_and_who_is_in_already_are_refused(tmp_path):
    sites, folder = trained(tmp_path, KT)
    with pytest.raises(DataError, match="north is in the model already"):
        change(sites, folder, joining("north"), plan_for(NAMES, KT))
    with pytest.raises(PlanError, match="west is no party of the plan"):
        change(sites, folder, joining("west"))
    other = msgspec.structs.replace(KT, teachers=3)
    with pytest.raises(PlanError, match="with other settings or another seed than the plan"):
        change(sites, folder, joining("west"), plan_for(NAMES, other))
    averaged, mean = trained(tmp_path / "mean", FedAvg())
    with pytest.raises(PlanError, match="FedAvg lets nobody join or leave later"):
        change(averaged, mean, joining("west"), plan_for(NAMES, FedAvg()))


def test_public_rows_that_changed_since_the_students_voted_are_refused(tmp_path):
    sites, folder = trained(tmp_path, KT)
    for site in sites.values():
        open_rows().drop(columns="patient").iloc[1:].to_csv(site.folder / "open.csv", index=False)
    with pytest.raises(LaconicError, match="not those that students have voted on"):
        change(sites, folder, joining("west"), plan_for(NAMES, KT))


def test_a_hospital_leaves_between_machines_and_the_others_get_the_model_without_it(tmp_path):
    sites, folder = trained(tmp_path, KT, NAMES)
    with_west = party_in(sites["west"], "first").memory[MODEL]
    sent = load_part(folder).memory["sent"]["west"]
    forget(folder, "west")
    assert forget_runs(sites["registry"], load_part(folder), "west") == ["first"]
    left = [path for path in sites["registry"].folder.rglob("*") if path.is_file()]
    weights = max((one for one in sent["students"][0].values()), key=lambda one: one.nbytes)
    assert not any(weights.tobytes() in path.read_bytes() for path in left)
    assert list(forgotten(load_part(folder))) == ["west"]
    for _ in range(2):
        found = change(sites, folder, leaving("west"))
        assert set(found.data["scored"]) == set(TWO)
    for name in TWO:
        assert (brought(sites, name, tmp_path) == predictions(folder)).all()
    assert not list((sites["west"].folder / "runs").glob("change-*"))
    assert encode(party_in(sites["west"], "first").memory[MODEL]) == encode(with_west)
    never = furnish(tmp_path / "never")
    host(never, plan_for(TWO, KT))
    call("home", never["registry"].folder, "-o", tmp_path / "of-two")
    assert (predictions(folder) == predictions(tmp_path / "of-two" / "server")).all()
    # It comes back by the same way.
    change(sites, folder, joining("west"))
    assert (brought(sites, "west", tmp_path) == predictions(folder)).all()


def test_a_hospital_that_is_away_does_not_join_and_one_that_has_the_model_may_be(tmp_path):
    sites, folder = trained(tmp_path, KT)
    with pytest.raises(PartyAbsent, match="west"):
        change(sites, folder, joining("west"), plan_for(NAMES, KT), lines(sites, away=["west"]))
    found = change(sites, folder, joining("west"), plan_for(NAMES, KT), lines(sites, away=["south"]))
    assert set(found.data["scored"]) == {"north", "west"}


def test_a_plan_may_leave_out_hospitals_of_the_consortium(tmp_path):
    sites = furnish(tmp_path)
    plan = plan_for(TWO, KT)
    agree(sites, sites["registry"], plan, "one")
    found = host_again(sites, "one", line=lines(sites, away=["west"]))
    assert isinstance(found, Result) and set(found.data["scored"]) == set(TWO)
    files = {name: str(sites[name].folder / "party.toml") for name in TWO}
    alone = execute(msgspec.structs.replace(plan, data=msgspec.structs.replace(plan.data, files=files)))
    assert found.score == alone.score and plan_fingerprint(plan) != plan_fingerprint(plan_of(KT))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "MODEL", "--site", "nowhere", "--party", "west=west.csv"), "name who joins by --party NAME alone"),
        (("add", "MODEL", "--site", "nowhere"), "name who joins by --party NAME alone"),
        (("add", "MODEL", "--plan", "x.toml", "--party", "west=west.csv"), "--plan goes with --site"),
        (("add", "MODEL", "--site", "nowhere", "--party", "west"), "nowhere is no site"),
        (("forget", "west", "MODEL", "--site", "nowhere", "--rows", "x.csv"), "which no server has; leave out one"),
    ],
    ids=["file", "nobody", "plan", "site", "rows"],
)
def test_words_that_do_not_go_together_are_one_clear_error(tmp_path, words, said):
    found = call(*(tmp_path if word == "MODEL" else word for word in words))
    assert found.exit_code == 2
    assert said in found.stderr
