import numpy as np
import pytest

from benchmarks.large_message import Bulk, make_responder, secure
from laconic.core import Peers, WireLog
from laconic.deploy.journal import Journal
from laconic.deploy.transports import rpc_messages as frames
from laconic.deploy.transports.rpc_client import ConnectionBroken, RpcClient
from laconic.errors import PartyAbsent, StepError, WireError
from laconic.testing import bare_party

MEGABYTES = 14
"""Four parts."""


class Breaking:
    """A line that breaks for good after so many frames of a kind."""

    def __init__(self, responder, kind=None, after=0):
        self.line = secure(responder.site.folder, lambda name, blob, seconds: responder.hear(blob))
        self.kind, self.after = kind, after
        self.seen = []

    def __call__(self, name, blob, seconds):
        frame = frames.read_asked(blob)
        if self.kind is not None and isinstance(frame, self.kind):
            if self.after == 0:
                raise ConnectionBroken("cut")
            self.after -= 1
        self.seen.append(type(frame).__name__)
        return self.line(name, blob, seconds)


def ask(folder, line, step, **payload):
    hub = bare_party()
    with Journal(folder / "journal") as journal:
        carrier = journal.around(RpcClient(line, ("shop",), "run", folder / "spool"))
        return Peers(Bulk(), hub, carrier, WireLog(), ("shop",)).ask(getattr(Bulk(), step), **payload)["shop"]


@pytest.fixture
def responder(tmp_path):
    (tmp_path / "party").mkdir()
    return make_responder(tmp_path / "party", Bulk())


def test_a_long_answer_comes_in_parts_and_goes_on_where_the_line_broke(tmp_path, responder):
    with pytest.raises(PartyAbsent):
        ask(tmp_path, Breaking(responder, frames.More, after=1), "send", megabytes=MEGABYTES)
    line = Breaking(responder)
    assert ask(tmp_path, line, "send", megabytes=MEGABYTES).nbytes == MEGABYTES * 1_000_000
    assert line.seen == ["Ask", "More", "More"]
    assert not list((tmp_path / "spool").iterdir())


def test_a_long_question_goes_in_parts_and_goes_on_where_the_line_broke(tmp_path, responder):
    numbers = np.ones(MEGABYTES * 250_000, dtype=np.float32)
    with pytest.raises(PartyAbsent):
        ask(tmp_path, Breaking(responder, frames.Part, after=3), "take", numbers=numbers)
    line = Breaking(responder)
    assert ask(tmp_path, line, "take", numbers=numbers) == MEGABYTES * 250_000
    assert line.seen == ["Part", "Part", "Part", "Ask"]


def test_parts_that_do_not_fit_together_are_refused_and_fetched_anew(tmp_path, responder):
    (tmp_path / "spool").mkdir()
    with pytest.raises(PartyAbsent):
        ask(tmp_path, Breaking(responder, frames.More, after=1), "send", megabytes=MEGABYTES)
    (spooled,) = (tmp_path / "spool").iterdir()
    content = bytearray(spooled.read_bytes())
    content[5000] ^= 1
    spooled.write_bytes(content)
    with pytest.raises(WireError, match="do not fit together"):
        ask(tmp_path, Breaking(responder), "send", megabytes=MEGABYTES)
    assert ask(tmp_path, Breaking(responder), "send", megabytes=MEGABYTES).all()


def test_an_error_in_a_step_reaches_the_hub_and_leaves_the_party_alive(tmp_path, responder):
    with pytest.raises(StepError, match=r"^shop could not answer; .* reference [0-9a-f]{16}$"):
        ask(tmp_path, Breaking(responder), "send", megabytes=-1)
    assert ask(tmp_path, Breaking(responder), "send", megabytes=1).nbytes == 1_000_000
