"""A provisioned server and three clients as real processes with mutual TLS on loopback, started once for this file."""

import json
import socket
import ssl
import time

import msgspec
import pytest

from benchmarks.crashes import same
from laconic import Result
from laconic.atomic_files import read_sealed
from laconic.deploy.execute import execute
from laconic.deploy.party_files import Consortium, HubAddress, open_site
from laconic.deploy.transports.envelopes.keys import revoke
from laconic.deploy.transports.flare import system as engine
from laconic.deploy.transports.flare.operating import _start_hub, provision
from laconic.methods import methods
from laconic.plan import change_plan, draft
from tests.deploy.sites import ALL, agree, free_port

pytestmark = pytest.mark.slow
NAMES = ("site1", "site2", "site3")
SHORT = {"epochs": 1, "local_steps": 2, "seeded": True}


def small(kind):
    """A plan for a method with everything that takes long set to once, and noise that can be repeated."""
    changes = [("data.name", "breast_cancer"), ("data.parties", 4 if kind.kind == "vertical" else 3)]

    def shorten(table, path):
        for key, value in table.items():
            if isinstance(value, dict):
                shorten(value, f"{path}.{key}")
            elif key in SHORT and isinstance(value, int):
                changes.append((f"{path}.{key}", SHORT[key]))

    shorten(msgspec.to_builtins(kind()), "method")
    return change_plan(draft(kind), changes)


# No public set at hand holds times to an event, which Cox alone learns from.
PLANS = {kind.__name__.lower(): small(kind) for kind in methods().values() if kind.tasks != ("survival",)}
OTHER = "other"


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    folder = tmp_path_factory.mktemp("consortium")
    consortium = Consortium(
        project="trial", hub=HubAddress(name="hub", address="localhost", port=free_port()), parties=NAMES
    )
    provision(consortium, folder)
    for name in ("hub", *NAMES):
        (folder / name / "party.toml").write_text(f'name = "{name}"\n{ALL}')
    sites = {name: open_site(folder / name) for name in ("hub", *NAMES)}
    for run, plan in PLANS.items():
        agree(sites, sites["hub"], plan, run)
    agree(sites, sites["hub"], msgspec.structs.replace(PLANS["linear"], seed=9), OTHER)
    (sites["site2"].folder / "plans" / f"{OTHER}.toml").unlink()
    return sites


@pytest.fixture(scope="module")
def opened(places):
    hub = places["hub"]
    try:
        engine.start(hub.kit, None)
        engine.wait_until_listening(hub.kit, "localhost", hub.consortium.hub.port)
        for name in NAMES:
            engine.start(places[name].kit, name)
        with engine.session(hub.folder / "admin") as opened:
            assert engine.wait_for(opened, NAMES, 120) == list(NAMES)
            yield opened
    finally:
        for site in places.values():
            engine.stop(site.kit)


@pytest.fixture(scope="module")
def hosted(places, opened):
    """All runs in one job, one after the other; the last is one that a party has not agreed to."""
    engine.submit(opened, {"runs": [*PLANS, OTHER]}, list(NAMES))
    last = places["hub"].run(OTHER)
    ends = time.monotonic() + 400
    while not (last / "error").exists() and time.monotonic() < ends:
        assert not (last / "result").exists()
        time.sleep(0.2)
    return places["hub"]


@pytest.mark.parametrize("run", list(PLANS))
def test_every_method_gives_the_same_scores_and_bytes_as_in_process(hosted, run):
    folder = hosted.run(run)
    error = folder / "error"
    assert not error.exists(), read_sealed(error).decode()
    found = msgspec.json.decode(read_sealed(folder / "result"), type=Result)
    assert same(found, execute(PLANS[run]))


def test_a_party_with_another_plan_is_refused_with_both_shown(hosted):
    words = read_sealed(hosted.run(OTHER) / "error").decode()
    assert words.startswith("site2 has not agreed to the hub's plan ")
    assert "the plans in its folder `plans` are " in words


def job(folder, places):
    engine.write_job(folder, {"runs": ["linear"]}, list(NAMES))
    return folder


def refused(opened, folder):
    """What becomes of a job: it is refused at once, or ends without having run."""
    try:
        name = opened.submit_job(str(folder))
    except Exception as problem:
        return str(problem)
    ends = time.monotonic() + 90
    while not engine.state_of(opened, name).startswith("FINISHED") and time.monotonic() < ends:
        time.sleep(0.3)
    return engine.state_of(opened, name)


def test_a_job_that_carries_code_is_refused(opened, places, tmp_path):
    folder = job(tmp_path / "job", places)
    marker = tmp_path / "ran"
    (folder / "party" / "custom").mkdir()
    (folder / "party" / "custom" / "evil.py").write_text(f"open({str(marker)!r}, 'w')\nclass Evil: pass\n")
    config = folder / "party" / "config" / "config_fed_client.json"
    plain = json.loads(config.read_text())
    plain["components"].append({"id": "evil", "path": "evil.Evil", "args": {}})
    config.write_text(json.dumps(plain))
    words = refused(opened, folder)
    assert "COMPLETED" not in words
    assert not marker.exists()


def test_a_job_that_names_another_installed_class_is_refused(opened, places, tmp_path):
    folder = job(tmp_path / "job", places)
    config = folder / "party" / "config" / "config_fed_client.json"
    plain = json.loads(config.read_text())
    plain["components"].append(
        {"id": "popen", "path": "subprocess.Popen", "args": {"args": ["touch", str(tmp_path / "ran")]}}
    )
    config.write_text(json.dumps(plain))
    words = refused(opened, folder)
    assert "COMPLETED" not in words
    assert not (tmp_path / "ran").exists()


def test_an_unknown_certificate_is_refused(opened, places, tmp_path):
    port = places["hub"].consortium.hub.port
    stranger = Consortium(
        project="trial", hub=HubAddress(name="hub", address="localhost", port=port), parties=("site1",)
    )
    provision(stranger, tmp_path / "strangers")
    assert "accept each other" in words_on_line(places["site1"].kit, port)
    assert "accept each other" not in words_on_line(tmp_path / "strangers" / "site1" / "kit", port)


def words_on_line(kit, port):
    startup = kit / "startup"
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(startup / "client.crt", startup / "client.key")
    try:
        with socket.create_connection(("localhost", port), 10) as line, context.wrap_socket(line) as secure:
            secure.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return "accept each other" if secure.recv(100) else "closed"
    except (ssl.SSLError, OSError) as problem:
        return str(problem)


def test_the_engine_does_not_let_in_whose_key_was_taken_out(tmp_path):
    consortium = Consortium(
        project="trial", hub=HubAddress(name="hub", address="localhost", port=free_port()), parties=("site1", "site2")
    )
    provision(consortium, tmp_path)
    hub = open_site(tmp_path / "hub")
    revoke(hub.keys, "site1")
    try:
        _start_hub(hub)
        engine.wait_until_listening(hub.kit, "localhost", consortium.hub.port)
        for name in consortium.parties:
            engine.start(tmp_path / name / "kit", name)
        with engine.session(hub.folder / "admin") as line:
            assert engine.wait_for(line, ("site2",), 60) == ["site2"]
            assert engine.wait_for(line, ("site1",), 5) == []
    finally:
        for name in ("hub", *consortium.parties):
            engine.stop(tmp_path / name / "kit")
