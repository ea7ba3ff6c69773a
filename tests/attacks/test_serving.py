"""Attacks 8 and 9: a model in use is asked until nothing is hidden, or until nobody else is answered."""

import socket
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPException

import pytest

from tests.attacks.harness import TOKEN, make_model, not_mended, people, real_server, serve_part

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


@not_mended(8)
def test_a_part_is_not_served_without_the_partys_own_rules(place):
    assert serve_part(place, with_party_file=False) is None


@not_mended(8)
def test_max_epsilon_holds_for_a_model_in_use(place):
    client = serve_part(place, allow=LIMIT)
    with client:
        assert client.find(people(40))
        answers = [client.answers("represent", rows="asked x") for _ in range(50)]
    told = {numbers.tobytes() for numbers in answers if numbers is not None}
    assert len(told) < 10, f"{len(told)} answers about the same 40 people, each with fresh noise"


@not_mended(8)
def test_guessed_ids_do_not_list_a_partys_customers(place):
    with serve_part(place) as client:
        known = client.answers("find_rows", ids=people(20_000), rows="asked x")
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


@not_mended(9)
def test_half_sent_headers_keep_nobody_out(port):
    with ExitStack() as lines:
        for _ in range(210):
            line = lines.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
            line.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        assert [ask(port) for _ in range(3)] == [200, 200, 200]


@not_mended(9)
def test_headers_of_any_size_are_not_taken(port):
    """Without a token: 8 MB in one header, which the server would have to keep until its end comes."""
    taken = 0
    with socket.create_connection(("127.0.0.1", port), timeout=5) as line:
        line.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nX-Large: ")
        try:
            for _ in range(128):
                line.sendall(b"x" * 65_536)
                taken += 65_536
        except OSError:
            pass  # The server has closed the line.
    assert taken < 2 << 20, f"{taken:,} bytes of one header were taken"


@pytest.mark.slow
@not_mended(9)
def test_a_header_that_does_not_come_to_its_end_is_given_up(port):
    with socket.create_connection(("127.0.0.1", port), timeout=12) as line:
        line.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n")
        try:
            ended = line.recv(1000) is not None
        except TimeoutError:
            ended = False
    assert ended, "after 12 seconds the server still waits for the rest of a header"
