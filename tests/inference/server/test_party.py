import socket
import time
from contextlib import suppress
from threading import Thread

import pytest

from laconic.errors import PlanError, StepError
from laconic.inference.predict import FindRows
from laconic.inference.server.party import Addresses


@pytest.fixture
def listener():
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        line.listen()
        yield line, f"http://127.0.0.1:{line.getsockname()[1]}"


def carried(urls, deadline=0.3):
    return dict(Addresses(urls, "token").carry(FindRows(), dict.fromkeys(urls, b"question"), deadline))


def test_a_party_that_never_answers_is_absent_after_the_deadline(listener):
    started = time.monotonic()
    assert carried({"shop": listener[1]}) == {}
    assert time.monotonic() - started < 5


def test_a_party_that_is_not_there_is_absent():
    assert carried({"shop": "http://127.0.0.1:9"}) == {}


def answer(line, reply, pause=0.0):
    def serve():
        peer, _ = line.accept()
        with peer, suppress(OSError):
            peer.recv(1 << 16)
            for part in reply:
                peer.sendall(part)
                time.sleep(pause)

    Thread(target=serve, daemon=True).start()


def test_an_answer_is_taken_as_it_is(listener):
    answer(listener[0], [b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"])
    assert carried({"shop": listener[1]}, 5.0) == {"shop": b"abc"}


def test_an_answer_that_drips_is_absent_too(listener):
    drops = [b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", *[b"x"] * 1000]
    answer(listener[0], drops, pause=0.1)
    started = time.monotonic()
    assert carried({"shop": listener[1]}, 0.5) == {}
    assert time.monotonic() - started < 5


def test_a_refusal_is_an_error_that_names_the_party(listener):
    answer(listener[0], [b"HTTP/1.1 401 No\r\nContent-Length: 5\r\n\r\nwrong"])
    with pytest.raises(StepError, match=r"shop refused the question \(401\): wrong; check its token"):
        carried({"shop": listener[1]}, 5.0)


def test_only_https_leaves_this_machine():
    with pytest.raises(PlanError, match="address of shop must begin with https"):
        Addresses({"shop": "http://shop.example:80"}, "token")
