"""Every method between hospitals with files of their own, over a provisioned FLARE server and three clients."""

import time

import msgspec
import pytest

from laconic import Result, execute, load_model
from laconic.atomic_files import read_sealed
from laconic.deploy.party_files import Consortium, HubAddress, open_site
from laconic.deploy.transports.flare import system as engine
from laconic.deploy.transports.flare.operating import provision
from tests.data.hospitals import NAMES, open_rows
from tests.deploy.sites import agree, free_port
from tests.deploy.test_sites_apart import METHODS, call, equal, named, plan_of, write_own

pytestmark = pytest.mark.slow
RUNS = {named(method).lower(): method for method in METHODS}


@pytest.fixture(scope="module")
def hosted(tmp_path_factory):
    """All runs in one job, one after the other; returns the sites."""
    folder = tmp_path_factory.mktemp("hospitals")
    around = Consortium(
        project="trial", hub=HubAddress(name="registry", address="localhost", port=free_port()), parties=NAMES
    )
    provision(around, folder)
    sites = {name: open_site(folder / name) for name in ("registry", *NAMES)}
    write_own(sites)
    for run, method in RUNS.items():
        agree(sites, sites["registry"], plan_of(method), run)
    hub = sites["registry"]
    try:
        engine.start(hub.kit, None)
        engine.wait_until_listening(hub.kit, "localhost", around.hub.port)
        for name in NAMES:
            engine.start(sites[name].kit, name)
        with engine.session(hub.folder / "admin") as opened:
            assert engine.wait_for(opened, NAMES, 120) == list(NAMES)
            engine.submit(opened, {"runs": list(RUNS)}, list(NAMES))
            ends, last = time.monotonic() + 300, hub.run(list(RUNS)[-1])
            while not any((last / name).exists() for name in ("result", "error")) and time.monotonic() < ends:
                time.sleep(0.2)
    finally:
        for site in sites.values():
            engine.stop(site.kit)
    return sites


@pytest.mark.parametrize("run", list(RUNS))
def test_flare_gives_the_scores_bytes_and_predictions_of_one_process(hosted, run, tmp_path):
    folder = hosted["registry"].run(run)
    assert not (folder / "error").exists(), read_sealed(folder / "error").decode()
    found = msgspec.json.decode(read_sealed(folder / "result"), type=Result)
    assert equal(found, execute(plan_of(RUNS[run], hosted)))
    new, said = open_rows(30).drop(columns="patient"), set()
    for site in hosted.values():
        assert call("home", site.folder, "--run", run, "-o", tmp_path / site.name).exit_code == 0
        part = tmp_path / site.name / ("server" if site.name == "registry" else site.name)
        said.add(load_model(part).predict(new).predictions.tobytes())
    assert len(said) == 1
