"""Attacks 8 and 9: a model in use is asked until nothing is hidden, or until nobody else is answered."""

import asyncio
import gc
import shutil
import socket
import ssl
import weakref
from contextlib import ExitStack, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection

import pytest

from benchmarks.certificates import write_certificates
from benchmarks.serve import memory_of
from laconic.inference.predict import cut_name
from laconic.inference.server.connections import Door
from tests.attacks.harness import (
    FORK,
    TOKEN,
    laconic,
    make_model,
    own_rows,
    people,
    real_server,
    serve_part,
    spent_by,
    times_noted,
)

NOISY = (
    "--set", "method.encoder.type=PublicProjection", "--set", "method.encoder.dim=2",
    "--set", "method.noise.type=ClippedGaussian", "--set", "method.noise.sigma=4.0", "--set", "method.trainer.epochs=1",
)  # fmt: skip
LIMIT = "max_epsilon = 2.0\n"
"""What three or four releases of one row cost in this model."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    make_model(folder, "FedOnce", *NOISY)
    return folder


def test_a_part_is_not_served_without_the_partys_own_rules(place):
    assert serve_part(place, with_party_file=False) is None


def test_max_epsilon_holds_for_a_model_in_use(place):
    client = serve_part(place, allow=LIMIT)
    with client:
        assert client.find(people(40))
        answers = [client.answers("represent", rows=client.asked) for _ in range(50)]
    told = {numbers.tobytes() for numbers in answers if numbers is not None}
    assert len(told) < 10, f"{len(told)} answers about the same 40 people, each with fresh noise"


def test_guessed_ids_do_not_list_a_partys_customers(place):
    with serve_part(place) as client:
        known = client.answers("find_rows", ids=people(20_000), rows=cut_name(people(20_000)))
    assert known is None, f"{int(known.sum())} customers were found by one question with 20,000 guesses"


def test_a_token_that_others_can_read_is_not_taken_without_a_word(place):
    (place / "tokens.txt").chmod(0o644)
    try:
        client = serve_part(place)
    finally:
        (place / "tokens.txt").chmod(0o600)
    assert client is None or "others can read" in client.announced


@pytest.fixture(scope="module")
def port(place):
    with real_server(place) as found:
        yield found


@pytest.fixture(scope="module")
def tls_port(place):
    write_certificates(place)
    with real_server(place, "--certificate", place / "server.pem", "--key", place / "server.key") as found:
        yield place, found


def ask(port):
    """The status that a client with a token gets."""
    line = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        line.request("GET", "/health", headers={"Authorization": f"Bearer {TOKEN}"})
        return line.getresponse().status
    except (OSError, HTTPException) as problem:
        return type(problem).__name__
    finally:
        line.close()


def test_a_client_with_a_token_is_answered(port):
    assert ask(port) == 200


def test_half_sent_headers_keep_nobody_out(port):
    with ExitStack() as lines:
        for _ in range(210):
            line = lines.enter_context(socket.create_connection(("127.0.0.1", port), 5, ("127.0.0.2", 0)))
            line.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        assert [ask(port) for _ in range(3)] == [200, 200, 200]


def test_headers_of_any_size_are_not_taken(port):
    """Without a token: 8 MB in one header, which the server would have to keep until its end comes."""
    taken = 0
    with socket.create_connection(("127.0.0.1", port), timeout=5) as line:
        # What waits on this side has not been taken by the server.
        line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        line.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nX-Large: ")
        try:
            for _ in range(128):
                line.sendall(b"x" * 65_536)
                taken += 65_536
        except OSError:
            pass  # The server has closed the line.
    assert taken < 2 << 20, f"{taken:,} bytes of one header were taken"


@pytest.mark.slow
def test_a_header_that_does_not_come_to_its_end_is_given_up(port):
    with socket.create_connection(("127.0.0.1", port), timeout=12) as line:
        line.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n")
        try:
            ended = line.recv(1000) is not None
        except TimeoutError:
            ended = False
    assert ended, "after 12 seconds the server still waits for the rest of a header"


def test_what_left_is_in_the_partys_account_and_a_restart_forgets_nothing(place):
    """As long as the party's rules are the same: what a model in use has spent is spent."""
    with serve_part(place, allow=LIMIT) as client:
        client.find(people(5))
        while client.answers("represent", rows=client.asked) is not None:
            pass
    assert 1.5 < spent_by(place) <= 2.0
    with serve_part(place, allow=LIMIT) as client:
        client.find(people(5))
        assert client.answers("represent", rows=client.asked) is None
        client.find(people(9))
        assert client.answers("represent", rows=client.asked) is None
    assert 1.5 < spent_by(place) <= 2.0


def test_a_folder_put_back_from_a_backup_takes_nothing_off_the_account(tmp_path):
    make_model(tmp_path, "FedOnce", *NOISY)
    serve_part(tmp_path)
    shutil.copytree(tmp_path / "model", tmp_path / "backup")
    before = []
    for _ in range(3):
        with serve_part(tmp_path) as client:
            client.find(people(5))
            assert client.answers("represent", rows=client.asked) is not None
        before.append(spent_by(tmp_path))
        shutil.rmtree(tmp_path / "model")
        shutil.copytree(tmp_path / "backup", tmp_path / "model")
    assert before[0] < before[1] < before[2]


@pytest.mark.parametrize("rows", ["own", "train", "test", ""])
def test_no_rows_are_answered_about_that_were_not_asked_for_by_id(place, rows):
    with serve_part(place) as client:
        assert client.answers("find_rows", ids=people(5), rows=rows) is None
        assert client.answers("represent", rows=rows) is None


def test_guesses_one_by_one_end_for_the_day_and_for_known_people_too(place):
    with serve_part(place, serve="unknown_ids_per_day = 20\n") as client:
        assert all(client.find([f"guess {number % 20}"]) for number in range(40)), "asked again, one counts once"
        assert client.find(["c00001"])
        assert not client.find(["guess 20"])
        assert not client.find(["c00001"])
    with serve_part(place, serve="unknown_ids_per_day = 20\n") as client:
        assert not client.find(["c00001"]), "a restart began another day"


def test_people_are_not_asked_about_without_end(tmp_path):
    make_model(tmp_path)
    with serve_part(tmp_path, serve="ids_per_day = 100\n") as client:
        assert [client.find(people(40)) for _ in range(3)] == [True, True, False]
        assert client.find(people(20))
        assert not client.find(people(1))


def test_a_refused_answer_leaves_no_trace(tmp_path):
    make_model(tmp_path, "FedOnce", *NOISY)
    with serve_part(tmp_path, allow="max_rows = 5\n") as client:
        client.find(people(6))
        before = times_noted(tmp_path, "represent")
        assert client.answers("represent", rows=client.asked) is None
        assert times_noted(tmp_path, "represent") == before
        client.find(people(5))
        assert client.answers("represent", rows=client.asked) is not None
        assert times_noted(tmp_path, "represent") == before + 1


def test_two_processes_that_answer_at_once_lose_nothing(tmp_path):
    make_model(tmp_path, "FedOnce", *NOISY)
    before = times_noted(tmp_path, "represent")
    assert serve_part(tmp_path) is not None

    def keep_asking(number):
        with serve_part(tmp_path) as client:
            client.find(people(3 + number))
            for _ in range(10):
                assert client.answers("represent", rows=client.asked) is not None

    processes = [FORK.Process(target=keep_asking, args=(number,)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert times_noted(tmp_path, "represent") - before == 30


def test_parts_at_hand_are_asked_without_rules_but_keep_their_ledger(place):
    """Decided: whoever has everybody's folders and rows on one machine has nobody to be protected from."""
    before = times_noted(place, "represent")
    frame = own_rows("bank", people(70)[60:])
    frame.drop(columns="churned").to_csv(place / "bank-new.csv", index=False)
    own_rows("shop", people(70)[60:]).to_csv(place / "shop-new.csv", index=False)
    files = ("--files", place / "bank-new.csv", place / "shop-new.csv")
    assert laconic("predict", place / "model", *files).exit_code == 0
    assert times_noted(place, "represent") == before + 1


def test_strangers_cost_a_server_little_memory(tls_port):
    """Encrypted connections without a request; asyncio would set 256 KB aside for each."""
    with ExitStack() as lines:
        before = connect(tls_port, lines, "127.0.0.3", 5)
        assert connect(tls_port, lines, "127.0.0.3", 100) - before < 15, "MB for a hundred connections"


def test_connections_that_ended_are_not_kept_by_the_hundred():
    """Those of asyncio are cycles of garbage, which Python looks for when it has nothing better to do."""

    class Cycle:
        def __init__(self):
            self.itself = self

    async def come_and_go(door, count):
        ended = []
        for number in range(count):
            connection = Cycle()
            ended.append(weakref.ref(connection))
            door.enter(connection, ("127.0.0.1", number))
            door.leave(("127.0.0.1", number))
        return sum(one() is not None for one in ended)

    gc.disable()
    try:
        assert asyncio.run(come_and_go(Door(), 300)) <= 32
    finally:
        gc.enable()


def connect(tls_port, lines, address, count):
    """Open so many encrypted connections from an address; returns the server's memory in MB."""
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    for _ in range(count):
        plain = socket.create_connection(("127.0.0.1", tls_port[1]), 5, (address, 0))
        lines.enter_context(anybody.wrap_socket(plain))
    return memory_of(max(one.pid for one in FORK.active_children()))


def test_connections_that_say_nothing_keep_nobody_out_of_https(tls_port):
    place, port = tls_port
    with ExitStack() as lines:
        for _ in range(300):
            lines.enter_context(socket.create_connection(("127.0.0.1", port), 5, ("127.0.0.2", 0)))
        trusted = ssl.create_default_context(cafile=place / "authority.pem")
        line = HTTPSConnection("127.0.0.1", port, timeout=5, context=trusted)
        line.request("GET", "/health", headers={"Authorization": f"Bearer {TOKEN}"})
        assert line.getresponse().status == 200


def test_who_was_let_in_is_not_put_out_by_strangers(port):
    known = HTTPConnection("127.0.0.1", port, timeout=5)
    known.request("GET", "/health", headers={"Authorization": f"Bearer {TOKEN}"})
    assert known.getresponse().read()
    known.sock.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n")
    with ExitStack() as lines:
        for _ in range(300):
            lines.enter_context(socket.create_connection(("127.0.0.1", port), 5, ("127.0.0.2", 0)))
        known.sock.sendall(f"Authorization: Bearer {TOKEN}\r\n\r\n".encode())
        assert known.sock.recv(1000).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "start",
    [
        b"GET /" + b"x" * 100_000,
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"x" * 50_000 + b"\r\n\r\n",
    ],
)
def test_a_header_that_comes_whole_is_limited_too(port, start):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as line:
        try:
            line.sendall(start)
            said = line.recv(1000)
        except ConnectionError:
            said = b""
    assert said == b"" or said.startswith((b"HTTP/1.1 400", b"HTTP/1.1 431"))


def test_a_body_of_a_stranger_is_not_waited_for(port):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as line:
        line.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
        said = b""
        with suppress(ConnectionError):  # The body that was not read may reset the line before its end is.
            while block := line.recv(1000):
                said += block
    assert said == b"" or said.startswith(b"HTTP/1.1 401")
