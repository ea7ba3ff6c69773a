"""By command, over a provisioned FLARE server: a hospital joins a model, and another leaves it."""

import pytest

from laconic import load_model, write_plan
from laconic.deploy.party_files import Consortium, HubAddress, open_site
from laconic.deploy.transports.flare import system as engine
from laconic.deploy.transports.flare.operating import provision
from tests.data.hospitals import NAMES, open_rows
from tests.deploy.sites import free_port
from tests.deploy.test_sites_apart import call, write_own
from tests.inference.test_update_site_changes import KT, TWO, plan_for

pytestmark = pytest.mark.slow


def said(*words):
    found = call(*words)
    assert found.exit_code == 0, found.output
    return found.output


def test_a_hospital_joins_and_another_leaves_by_command(tmp_path):
    address = HubAddress(name="registry", address="localhost", port=free_port())
    provision(Consortium(project="later", hub=address, parties=NAMES), tmp_path)
    sites = {name: open_site(tmp_path / name) for name in ("registry", *NAMES)}
    write_own(sites)
    for name, plan in {"two": plan_for(TWO, KT), "three": plan_for(NAMES, KT)}.items():
        (tmp_path / f"{name}.toml").write_text(write_plan(plan))
        for site in sites.values():
            (site.folder / "plans" / f"{name}.toml").write_text(write_plan(plan))
    registry, model = sites["registry"].folder, tmp_path / "model" / "server"
    new = open_rows(30).drop(columns="patient")

    def at_home(name):
        said("home", sites[name].folder, "-o", tmp_path / "home", "--replace")
        return load_model(tmp_path / "home" / name).predict(new).predictions.tobytes()

    try:
        for name in NAMES:
            engine.start(sites[name].kit, name)
        said("host", tmp_path / "two.toml", "--site", registry)
        said("home", registry, "-o", tmp_path / "model")
        before = load_model(model).predict(new).predictions.tobytes()
        words = said("add", model, "--site", registry, "--party", "west", "--plan", tmp_path / "three.toml")
        assert "west is in the model" in words
        assert "The model came home to north and south and west" in words
        after = load_model(model).predict(new).predictions.tobytes()
        assert after != before
        assert {at_home(name) for name in NAMES} == {after}
        again = call("add", model, "--site", registry, "--party", "west", "--plan", tmp_path / "three.toml")
        assert "west is in the model already" in again.output
        words = said("forget", "north", model, "--site", registry)
        assert "north is forgotten" in words and "Deleted what run" in words
        left = load_model(model).predict(new).predictions.tobytes()
        assert {at_home(name) for name in ("south", "west")} == {left}
        assert at_home("north") == after != left
        assert "finished" in said("status", registry)
    finally:
        for site in sites.values():
            engine.stop(site.kit)
