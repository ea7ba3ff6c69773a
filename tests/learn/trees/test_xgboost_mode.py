import socket
import threading

import pytest

from laconic.learn.trees.xgboost_mode import Meter, Relay

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, inside):
    return len(inside).to_bytes(3, "big") + bytes([kind]) + bytes(5) + inside


def message(inside):
    return bytes(1) + len(inside).to_bytes(4, "big") + inside


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_payload_is_what_messages_in_data_frames_carry_however_they_arrive(step):
    one, two = message(b"x" * 300), message(b"y" * 20)
    # The second message begins in the frame where the first ends.
    stream = PREFACE + frame(4, bytes(12)) + frame(1, b"headers") + frame(0, one[:100]) + frame(0, one[100:] + two)
    meter = Meter(tls=False)
    meter.see(stream[:30])
    for at in range(30, len(stream), step):
        meter.see(stream[at : at + step])
    assert (meter.total, meter.payload) == (len(stream), 320)


def test_under_tls_payload_is_what_is_inside_application_records():
    def record(kind, inside):
        return bytes([kind, 3, 3]) + len(inside).to_bytes(2, "big") + inside

    stream = record(22, bytes(90)) + record(23, bytes(117)) + record(23, bytes(57))
    meter = Meter(tls=True)
    for byte in stream:
        meter.see(bytes([byte]))
    assert (meter.total, meter.payload) == (len(stream), 140)


def test_a_relay_passes_everything_on_both_ways():
    with socket.create_server(("localhost", 0)) as server:
        relay = Relay(server.getsockname()[1], tls=True)

        def echo():
            there, _ = server.accept()
            with there:
                while some := there.recv(1000):
                    there.sendall(some)

        threading.Thread(target=echo, daemon=True).start()
        sent = bytes([23, 3, 3]) + (50_017).to_bytes(2, "big") + bytes(50_017)
        with socket.create_connection(("localhost", relay.port)) as party:
            party.sendall(sent)
            got = b""
            while len(got) < len(sent):
                got += party.recv(1 << 16)
        relay.close()
    assert got == sent
    assert relay.payload == (50_000, 50_000)
    assert relay.framing == (22, 22)
