"""What the doctor says of a site's machine, with kits as `laconic provision` makes them and a hub that speaks TLS."""

import socket
import ssl
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from laconic.deploy import Consortium, HubAddress, provision, read_party
from laconic.doctor import checks
from tests.deploy.sites import free_port


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Sites of a hub and a party, and the same of strangers who chose the same port."""
    made = tmp_path_factory.mktemp("sites")
    circle = Consortium(
        project="trial", hub=HubAddress(name="hub", address="localhost", port=free_port()), parties=("shop",)
    )
    for place in ("ours", "strangers"):
        provision(circle, made / place)
        for name in ("hub", "shop"):
            (made / place / name / "party.toml").write_text(f'name = "{name}"\n')
    return made


def examine(folder, site):
    """Level and words, by what they are about; the last word counts."""
    found = checks.check_machine(read_party(folder / site / "party.toml"))
    return {one.about: (one.level, one.words) for one in found}


def port_of(folder):
    return checks.open_site(folder / "ours" / "hub").consortium.hub.port


@contextmanager
def listening(folder, date):
    """A hub at its port, with the certificate of its kit, that wants to see another and then tells the time."""
    startup = folder / "ours" / "hub" / "kit" / "startup"
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=startup / "rootCA.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    # The newer version lets a stranger finish his half of the greeting before he is refused.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(startup / "server.crt", startup / "server.key")

    def serve():
        line, _ = door.accept()
        try:
            with context.wrap_socket(line, server_side=True) as secure:
                secure.recv(4096)
                secure.sendall(f"HTTP/1.1 404 Not Found\r\n{date}Connection: close\r\n\r\n".encode())
        except ssl.SSLError:
            line.close()

    with socket.create_server(("localhost", port_of(folder))) as door:
        server = threading.Thread(target=serve, daemon=True)
        server.start()
        yield
        server.join(10)


def said_at(moment):
    return f"Date: {format_datetime(moment, usegmt=True)}\r\n"


def test_a_site_that_is_ready_is_said_to_be(folder):
    at_hub = examine(folder, "ours/hub")
    assert at_hub["port"] == ("fine", f"port {port_of(folder)} is free; the parties must be able to reach it")
    assert at_hub["versions"][0] == at_hub["certificates"][0] == "fine"
    with listening(folder, said_at(datetime.now(UTC))):
        at_shop = examine(folder, "ours/shop")
    assert at_shop["port"] == ("fine", f"localhost:{port_of(folder)} can be reached")
    assert at_shop["certificates"] == ("fine", f"localhost:{port_of(folder)} and this site accept each other")
    assert at_shop["clock"][0] == "fine"


def test_clocks_that_differ_are_found(folder):
    with listening(folder, said_at(datetime.now(UTC) - timedelta(hours=2))):
        level, words = examine(folder, "ours/shop")["clock"]
    assert level == "wrong"
    assert words in {f"the hub's clock and this one are {seconds} s apart" for seconds in range(7195, 7206)}


def test_a_hub_that_tells_no_time_is_noted(folder):
    with listening(folder, ""):
        assert examine(folder, "ours/shop")["clock"] == ("note", "the hub did not say what time it is")


def test_the_kit_of_another_project_is_not_accepted(folder):
    with listening(folder, said_at(datetime.now(UTC))):
        level, words = examine(folder, "strangers/shop")["certificates"]
    assert level == "wrong"
    assert words.startswith(f"localhost:{port_of(folder)} does not accept: ")


def test_a_hub_that_is_not_up_yet_is_noted(folder):
    level, words = examine(folder, "ours/shop")["port"]
    assert level == "note"
    assert words.startswith(f"nobody answers at localhost:{port_of(folder)}: ")


def test_a_port_that_is_taken_is_wrong(folder):
    with socket.create_server(("", port_of(folder))):
        level, words = examine(folder, "ours/hub")["port"]
    assert level == "wrong"
    assert words.startswith(f"port {port_of(folder)} is taken")


@pytest.mark.parametrize(
    ("later", "about", "level"),
    [(-30, "clock", "wrong"), (355, "certificates", "note"), (400, "certificates", "wrong")],
)
def test_certificates_that_have_not_begun_or_end_are_found(folder, monkeypatch, later, about, level):
    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(days=later)

    monkeypatch.setattr(checks, "datetime", Clock)
    assert examine(folder, "ours/hub")[about][0] == level


def test_certificates_and_keys_that_do_not_belong_or_lie_open_are_found(folder):
    startup = folder / "ours" / "shop" / "kit" / "startup"
    root, key = startup / "rootCA.pem", startup / "client.key"
    own, others = root.read_bytes(), (folder / "strangers/shop/kit/startup/rootCA.pem").read_bytes()
    mode = key.stat().st_mode
    try:
        key.chmod(0o644)
        assert examine(folder, "ours/shop")["certificates"] == ("note", f"others can read {key}")
        root.write_bytes(others)
        level, words = examine(folder, "ours/shop")["certificates"]
        assert (level, words.startswith(f"{startup} holds no pair that fits: ")) == ("wrong", True)
    finally:
        root.write_bytes(own)
        key.chmod(mode)
