"""Private set intersection: the same rows as an exact match, and nothing but points, counts and marks on the wire."""

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from benchmarks.psi import measure
from laconic import Linear, Rap, from_frames, simulate
from laconic.align.alignment import ExactMatch
from laconic.align.psi import PrivateMatch, hide_ids, multiply, new_secret, shared_points
from laconic.core import Party, Peers, WireLog, decode, decode_question
from laconic.deploy import Processes, open_calls
from laconic.errors import DataError, PlanError, Refused, WireError


class Recorder:
    """The in-process runtime, with every blob kept."""

    def __init__(self):
        self.questions, self.answers = [], []

    @contextmanager
    def open(self, parties):
        with open_calls(parties) as carrier:
            self.carrier = carrier
            yield SimpleNamespace(names=carrier.names, carry=self.carry, ledgers=carrier.ledgers)

    def carry(self, script, blobs, deadline):
        for name, reply in self.carrier.carry(script, blobs, deadline):
            self.questions.append(blobs[name])
            self.answers.append(reply)
            yield name, reply


def frames(parties=("bank", "shop"), rows=120, start=0):
    rng = np.random.default_rng(1)
    made = {}
    for number, name in enumerate(parties):
        ids = [f"person {one}" for one in rng.permutation(np.arange(rows) + start + 20 * number)]
        made[name] = pd.DataFrame({"id": ids, f"of {name}": rng.normal(size=rows)})
    made["bank"]["left"] = rng.integers(2, size=rows)
    return made


def federation(**settings):
    return from_frames(frames(**settings), id="id", label="left")


def match(align, made, runtime=None):
    """Only the matching, and the parties as it leaves them."""
    parties = {name: Party(name, table, 0) for name, table in made.tables.items()}
    hub = parties.pop(made.hub)
    with (runtime.open if runtime else open_calls)(tuple(parties.values())) as carrier:
        log = WireLog()
        log.phase = "align"
        peers = Peers(align, hub, carrier, log, carrier.names)
        return align.match(hub, peers), {hub.name: hub} | parties, log


@pytest.mark.parametrize("parties", [("bank", "shop"), ("bank", "shop", "insurer"), ("shop", "bank", "a", "b")])
def test_private_and_exact_matching_keep_the_same_rows_in_the_same_order(parties):
    made = federation(parties=parties)
    (exact, plain, _), (private, hidden, _) = match(ExactMatch(), made), match(PrivateMatch(chunk=50), made)
    assert private == {key: exact[key] for key in ("shared", "rows")}
    assert private["shared"] == 120 - 20 * (len(parties) - 1)
    for name in parties:
        for cut in ("train", "valid", "test", "shared", "own"):
            ours, theirs = hidden[name].data, plain[name].data
            assert ours.keys[ours.cut(cut)].tolist() == theirs.keys[theirs.cut(cut)].tolist()


def test_nothing_but_points_counts_and_marks_crosses_the_wire():
    made = federation(parties=("bank", "shop", "insurer"))
    recorder = Recorder()
    match(PrivateMatch(chunk=64), made, recorder)
    crossed = [*(decode_question(one).payload for one in recorder.questions), *map(decode, recorder.answers)]
    assert len(crossed) > 20
    seen = {"points": 0, "marks": 0, "counts": 0}
    for value in crossed:
        for inner in value.values() if isinstance(value, dict) else [value]:
            if isinstance(inner, np.ndarray) and inner.ndim == 2:
                multiply(inner, new_secret())  # Refuses what is no point of the group.
                seen["points"] += len(inner)
            elif isinstance(inner, np.ndarray):
                assert inner.dtype == np.uint8
                assert inner.shape == (15,)  # One bit for each of 120 points.
                seen["marks"] += 1
            elif isinstance(inner, str):
                assert inner in made.names  # Whose points these are.
            else:
                assert inner is None or isinstance(inner, int)
                seen["counts"] += inner is not None
    # Each of 3 lists crosses once from its owner, twice to and twice from another, but for those steps at the hub.
    assert seen["points"] == 120 * (2 + 4 + 4)
    assert seen["marks"] == 4 * 2 + 2
    assert seen["counts"] > 0


def test_the_ids_themselves_appear_in_no_blob():
    made = federation()
    recorder = Recorder()
    match(PrivateMatch(chunk=64), made, recorder)
    blobs = b"".join((*recorder.questions, *recorder.answers))
    assert not any(f"person {number}".encode() in blobs for number in range(140))


def test_two_runs_show_other_points_of_the_same_ids():
    ids = ["a", "b", "c"]
    first, second = hide_ids(ids, new_secret()), hide_ids(ids, new_secret())
    assert not np.isin(first.view("S32"), second.view("S32")).any()


def test_secrets_apply_in_either_order():
    one, other = new_secret(), new_secret()
    ids = [str(number) for number in range(40)]
    assert np.array_equal(multiply(hide_ids(ids, one), other), multiply(hide_ids(ids, other, threads=1), one))


def test_sizes_are_in_the_ledger_and_so_is_what_the_hub_can_count():
    result = simulate(Linear(), federation(parties=("bank", "shop", "insurer")), align=PrivateMatch())
    words = " / ".join(release.words for release in result.releases if release.phase == "align")
    assert "how many ids it has" in words
    assert "count how many ids groups of parties share" in words
    assert "in the clear" not in words


def test_matching_gives_the_same_run_with_parties_apart():
    made = federation()
    apart = simulate(Linear(), made, align=PrivateMatch(chunk=100), runtime=Processes())
    together = simulate(Linear(), made, align=PrivateMatch(chunk=100))
    plain = simulate(Linear(), made, align=ExactMatch())
    assert apart.predictions == together.predictions == plain.predictions
    assert apart.align.bytes == together.align.bytes
    assert apart.data["fingerprint"] == plain.data["fingerprint"]


def test_secrets_are_forgotten_when_rows_are_matched():
    _, parties, _ = match(PrivateMatch(), federation())
    assert all("psi" not in party.memory for party in parties.values())


def test_only_the_hub_learns_if_so_set():
    counts, parties, _ = match(PrivateMatch(learns="hub"), federation())
    assert counts["shared"] == 100
    assert len(parties["bank"].data.cut("shared")) == 100
    assert "shared" not in parties["shop"].data.cuts


def test_nobody_learns_more_than_the_count_if_so_set():
    counts, parties, log = match(PrivateMatch(learns="nobody"), federation())
    assert counts["shared"] == 100
    assert not any(party.data.cuts for party in parties.values())
    assert not any(crossing.step in ("keep_rows", "unshuffle") for crossing in log.crossings)


def test_training_needs_all_to_learn():
    with pytest.raises(PlanError, match="learns = 'nobody'"):
        simulate(Linear(), federation(), align=PrivateMatch(learns="nobody"))


def test_no_shared_id_says_what_to_check():
    made = frames()
    made["shop"]["id"] = [f"nobody {number}" for number in range(120)]
    with pytest.raises(DataError, match=r"no id is at every party \(ids: bank 120, shop 120\).*laconic doctor"):
        simulate(Linear(), from_frames(made, id="id", label="left"), align=PrivateMatch())


def test_what_is_no_point_is_refused():
    with pytest.raises(WireError, match="not points"):
        multiply(np.full((1, 32), 255, dtype=np.uint8), new_secret())
    with pytest.raises(WireError, match="rows of 32 bytes"):
        multiply(np.zeros((1, 31), dtype=np.uint8), new_secret())


def test_a_list_with_the_same_point_twice_is_refused():
    points = hide_ids(["a", "b"], new_secret())
    with pytest.raises(WireError, match="same point twice"):
        shared_points([points, points[[0, 0]]])


def test_the_binding_leaves_no_library_file_behind(tmp_path, monkeypatch):
    import subprocess
    import sys

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    code = "from laconic.align.psi import new_secret; new_secret()"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert not list(tmp_path.iterdir())


def test_a_server_without_rows_can_relay_and_learns_no_row():
    made = federation(parties=("bank", "shop", "insurer"))
    private, plain = (simulate(Rap(), made, align=align) for align in (PrivateMatch(chunk=50), ExactMatch()))
    assert private.predictions == plain.predictions
    assert private.data["alignment"]["shared"] == 80
    with pytest.raises(PlanError, match="needs a hub with rows"):
        simulate(Rap(), made, align=PrivateMatch(learns="hub"))


def test_the_benchmark_runs_at_a_small_size(capsys):
    measure(300)
    assert capsys.readouterr().out.split()[0] == "300"


def test_questions_out_of_turn_are_refused():
    align, shop = PrivateMatch(), Party("shop", federation().tables["shop"], 0)
    with pytest.raises(WireError, match="no match has begun at shop"):
        align.show_points(shop, 0)
    align.begin(shop)
    with pytest.raises(WireError, match="no points of bank were brought to shop"):
        align.hand_on(shop, "bank", 0)
    align.take_points(shop, "bank", 0, hide_ids(["a", "b"], new_secret()))
    align.hand_on(shop, "bank", 0)
    with pytest.raises(WireError, match="were all brought to shop already"):
        align.take_points(shop, "bank", 1, hide_ids(["a"], new_secret()))
    with pytest.raises(WireError, match="marks for 120 points are 15 bytes, not 3 values"):
        align.keep_rows(shop, [1, 2, 3], 0)


def test_a_match_that_is_asked_again_from_the_start_gives_whole_lists():
    align, shop = PrivateMatch(chunk=2), Party("shop", federation().tables["shop"], 0)
    align.begin(shop)
    points = hide_ids(["a", "b", "c"], new_secret())
    for _ in range(2):
        for part in (0, 1, 1):
            align.take_points(shop, "bank", part, points[2 * part : 2 * part + 2])
        back = [align.hand_on(shop, "bank", part) for part in (0, 1, 1)]
        assert [len(part) for part in back] == [2, 1, 1]
        assert np.array_equal(back[1], back[2])


@pytest.mark.parametrize("align", [ExactMatch(), PrivateMatch(chunk=50)])
def test_being_told_twice_which_rows_to_keep_changes_nothing(align):
    class Twice(Recorder):
        def carry(self, script, blobs, deadline):
            if decode_question(next(iter(blobs.values()))).step == "keep_rows":
                list(self.carrier.carry(script, blobs, deadline))
            return super().carry(script, blobs, deadline)

    once = simulate(Linear(), federation(), align=align)
    twice = simulate(Linear(), federation(), align=align, runtime=Twice())
    assert once.predictions == twice.predictions


@pytest.mark.parametrize("align", [ExactMatch(), PrivateMatch(pairs=True)], ids=["exact", "private"])
def test_hub_and_party_hold_the_rows_that_only_they_share_in_one_order(align):
    found, parties, _ = match(align, federation(parties=("bank", "shop", "insurer")))
    # Ids run from 0, 20 and 40, 120 each: 80 are at all three, the bank and the shop share 20 more.
    assert found["paired"] == {"shop": 20}
    bank, shop = parties["bank"].data, parties["shop"].data
    pairs = bank.keys[bank.cut("paired shop")].tolist()
    assert len(pairs) == 20
    assert pairs == sorted(pairs) == shop.keys[shop.cut("paired")].tolist()
    assert not set(pairs) & set(bank.keys[bank.cut("shared")].tolist())
    assert "paired" not in parties["insurer"].data.cuts
    assert np.array_equal(bank.raw[bank.cut("paired shop")], bank.raw[[bank.places[one] for one in pairs]])


def test_nobody_learns_of_pairs_that_the_plan_does_not_ask_for():
    found, parties, _ = match(PrivateMatch(), federation(parties=("bank", "shop", "insurer")))
    assert "paired" not in found
    assert not [cut for one in parties.values() for cut in one.data.cuts if cut.startswith("paired")]


def test_pairs_in_the_hub_s_name_are_refused_unless_planned():
    party = Party("shop", federation().tables["shop"], 0)
    align = PrivateMatch()
    align.begin(party)
    with pytest.raises(Refused, match="does not say pairs = true"):
        align.note_pairs(party, cut="paired", marks=np.packbits(np.ones(120, bool)))


def test_more_pairs_than_points_were_brought_are_refused():
    party = Party("shop", federation().tables["shop"], 0)
    align = PrivateMatch(pairs=True)
    align.begin(party)
    with pytest.raises(Refused, match="0 points at most, and is given 120 pairs"):
        align.note_pairs(party, cut="paired", marks=np.packbits(np.ones(120, bool)))
