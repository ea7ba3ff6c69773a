"""Attack 1: a party, or a stranger on the engine, asks another party in the hub's name."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from laconic.deploy.transports.secure_channel import Channel
from laconic.errors import Refused
from tests.attacks.harness import (
    ENGINE_HUB,
    HUB,
    Hub,
    Trial,
    answer_of,
    decode,
    encode,
    frame,
    laconic,
    was_answered,
    was_refused,
)


@pytest.fixture
def trial(tmp_path):
    return Trial(tmp_path, parties=("shop", "insurer"))


@pytest.fixture
def hub(trial):
    """The bank, in a run with the insurer that has begun."""
    found = trial.hub("insurer")
    found.greet()
    found.match()
    return found


def state_of(trial, name="insurer"):
    """All that a party has on its disk."""
    site = trial.site(name)
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in site.rglob("*") if path.is_file()}


def frames_of(hub):
    """A frame of each kind, as the bank would say it."""
    asked = hub.unsigned_question("show_ids", "align")
    return {
        "Greet": hub.plain_greeting(),
        "Ask": asked,
        "Part": frame("Part", run="one", question="0" * 32, at=0, size=100, data=b"something"),
        "More": frame("More", run="one", question=decode(asked)["question"], at=0),
        "EndRun": frame("EndRun", run="one"),
    }


KINDS = ("Greet", "Ask", "Part", "More", "EndRun")


def test_the_hub_itself_is_answered(trial):
    hub = trial.hub("insurer")
    assert was_answered(hub.greet())
    hub.match()
    assert answer_of(hub.ask("learn_and_send"))["train"].shape == (43, 2)


def test_a_party_cannot_begin_a_run_in_the_hubs_name(trial):
    said = trial.hear("insurer", trial.hub("insurer").opening(), sender="shop")
    assert was_refused(said)
    assert not list((trial.site("insurer") / "runs").iterdir())


def test_a_party_with_its_own_keys_cannot_begin_a_run_even_if_the_engine_lies(trial):
    before = state_of(trial)
    with pytest.raises(Refused, match="insurer does not take this hub's key"):
        Hub(trial, "insurer", "one", keys="shop").greet()
    assert state_of(trial) == before


def test_a_party_cannot_ask_another_in_a_run_that_the_hub_began(trial, hub):
    said = trial.hear("insurer", hub.question("learn_and_send"), sender="shop")
    assert not was_answered(said), f"the shop got {answer_of(said)['train'].shape} numbers of the insurer"


def test_a_party_cannot_read_anothers_ledger(trial, hub):
    assert not was_answered(trial.hear("insurer", hub.sealed(frame("EndRun", run="one")), sender="shop"))


def test_a_frame_that_no_session_key_signed_is_refused_even_if_the_engine_says_that_it_is_the_hubs(trial):
    trial.hub("insurer").greet()
    forger = trial.hub("insurer")
    said = trial.hear("insurer", forger.unsigned_question("show_ids", "align"), sender=HUB)
    assert not was_answered(said)


def test_a_frame_heard_once_is_not_answered_for_who_sends_it_again(trial, hub):
    """A recording of the hub's frame in another's hands: kept answers must not be given out to it."""
    question = hub.question("show_ids", "align")
    answer_of(trial.hear("insurer", question, sender=HUB))
    assert not was_answered(trial.hear("insurer", question, sender="shop"))
    assert not was_answered(trial.hear("insurer", question, sender=HUB)), "the engine may lie"


def test_the_engine_brings_the_hubs_frames(trial):
    assert decode(trial.bring("insurer", trial.hub("insurer").opening(), caller=ENGINE_HUB))["type"] == "Opened"


def test_the_engine_does_not_bring_another_partys_frames(trial):
    """FLARE gives every client a proxy of every other, and says truly who calls."""
    said = decode(trial.bring("insurer", trial.hub("insurer").opening(), caller="shop"))
    assert (said["type"], said["challenge"]) == ("No", b"")


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_frame_is_heard_from_another_party(trial, hub, kind):
    said = trial.hear("insurer", hub.sealed(frames_of(hub)[kind]), sender="shop")
    assert said["type"] == "No", f"the insurer said {said['type']} to the shop"


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_not_on_a_channel_gets_the_same_words_and_changes_nothing(trial, hub, kind):
    before, plain = state_of(trial), frames_of(hub)[kind]
    true = decode(hub.sealed(plain))
    forged = {
        "in the clear": plain,
        "sealed with nothing": encode(true | {"body": plain}),
        "one bit changed": encode(true | {"body": bytes([true["body"][0] ^ 1]) + true["body"][1:]}),
        "cut": encode(true | {"body": true["body"][:-1]}),
        "counted on": encode(true | {"count": true["count"] + 1}),
        "of another channel": encode(true | {"channel": bytes(16)}),
        "with something added": encode(true | {"more": 1}),
        "noise": b"\x93 noise",
    }
    said = {name: trial.hear("insurer", blob, sender=HUB) for name, blob in forged.items()}
    assert all(was_refused(one) for one in said.values()), said
    assert len({encode(one) for one in said.values()}) == 1
    assert state_of(trial) == before
    assert decode(trial.bring("insurer", encode(true), ENGINE_HUB))["type"] == "Sealed"


def test_an_older_frame_is_not_heard_after_a_newer_one(trial, hub):
    older, newer = hub.sealed(hub.plain_greeting()), hub.sealed(hub.plain_greeting())
    assert was_answered(trial.hear("insurer", newer, sender=HUB))
    assert not was_answered(trial.hear("insurer", older, sender=HUB))


def test_a_frame_that_comes_twice_at_once_is_answered_once(trial, hub, monkeypatch):
    both, unseal, frame_ = Barrier(2), Channel.unseal, hub.sealed(hub.plain_greeting())

    def unseal_both_first(channel, sealed):
        found = unseal(channel, sealed)
        both.wait(20)
        return found

    monkeypatch.setattr(Channel, "unseal", unseal_both_first)
    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(trial.desks["insurer"].hear, [frame_, frame_]))
    assert sorted(decode(one)["type"] for one in said) == ["No", "Sealed"]


def test_a_frame_for_one_party_is_not_heard_by_another(trial, hub):
    at_shop = trial.hub("shop")
    at_shop.greet()
    assert not was_answered(trial.hear("shop", hub.question("show_ids", "align"), sender=HUB))
    assert not was_answered(trial.hear("insurer", at_shop.question("show_ids", "align"), sender=HUB))
    assert not was_answered(trial.hear("shop", hub.opening(), sender=HUB))


def test_a_channel_serves_the_run_that_it_was_opened_for_and_no_other(trial, hub):
    other = trial.hub("insurer", run="two")
    other.greet()
    said = trial.hear("insurer", other.sealed(hub.unsigned_question("show_ids", "align")), sender=HUB)
    assert not was_answered(said)


def test_an_opening_heard_once_opens_nothing_again_and_not_after_a_restart(trial, hub):
    recorded = hub.opening()
    assert was_answered(trial.hear("insurer", recorded, sender=HUB))
    live = hub.question("show_ids", "align")
    assert not was_answered(trial.hear("insurer", recorded, sender=HUB))
    trial.restart("insurer")
    assert not was_answered(trial.hear("insurer", recorded, sender=HUB))
    assert not was_answered(trial.hear("insurer", live, sender=HUB))


def test_a_recorded_opening_does_not_end_the_channel_of_the_hub(trial):
    hub = trial.hub("insurer")
    sent, carry = [], hub.line._line

    def record(name, blob, seconds):
        sent.append(blob)
        return carry(name, blob, seconds)

    hub.line._line = record
    hub.greet()
    for blob in sent:
        assert not was_answered(trial.hear("insurer", blob, sender=HUB))
    assert was_answered(trial.hear("insurer", hub.question("show_ids", "align"), sender=HUB))


def test_after_a_restart_of_the_party_the_hub_opens_a_new_channel_by_itself(trial, hub):
    trial.restart("insurer")
    assert was_answered(hub.greet())
    assert was_answered(hub.ask("learn_and_send"))


def test_a_party_whose_key_the_hub_does_not_know_is_not_believed(trial, tmp_path):
    """The insurer's machine is replaced by one of the same name with other keys, and the bank's public key."""
    keys = trial.site("insurer") / "keys"
    for path in keys.glob("insurer.*"):
        path.unlink()
    laconic("keys", "insurer", "--folder", keys)
    trial.restart("insurer")
    with pytest.raises(Refused, match="what answers as insurer does not have the key that this hub trusts"):
        trial.host()


def test_a_reply_that_was_changed_on_the_way_ends_the_run(trial):
    hub = trial.hub("insurer")
    hub.greet()
    carry = hub.line._line

    def change(name, blob, seconds):
        said = decode(carry(name, blob, seconds))
        return encode(said | {"body": said["body"][:-1] + bytes([said["body"][-1] ^ 1])})

    hub.line._line = change
    with pytest.raises(Exception, match="what came back from insurer is not its reply"):
        hub.ask("show_ids", "align")


def test_a_party_whose_key_is_revoked_is_asked_nothing_and_a_hub_whose_key_is_revoked_gets_nothing(trial, hub):
    assert laconic("keys", "--revoke", HUB, "--folder", trial.site("insurer") / "keys").exit_code == 0
    assert not was_answered(trial.hear("insurer", hub.question("show_ids", "align"), sender=HUB)), "from this moment on"
    with pytest.raises(Refused, match="insurer does not take this hub's key"):
        trial.hub("insurer", run="two").greet()
    assert laconic("keys", "--revoke", "shop", "--folder", trial.site(HUB) / "keys").exit_code == 0
    with pytest.raises(Exception, match="the key of shop was taken out"):
        trial.host("three")


def test_a_key_that_was_revoked_cannot_be_put_back(trial):
    keys = trial.site("insurer") / "keys"
    shutil.copy(keys / f"{HUB}.public", trial.root / "copy.public")
    laconic("keys", "--revoke", HUB, "--folder", keys)
    shutil.copy(trial.root / "copy.public", keys / f"{HUB}.public")
    with pytest.raises(Refused, match="does not take this hub's key"):
        trial.hub("insurer").greet()
    digits = laconic("keys", "--show", trial.root / "copy.public").output.partition(": ")[2]
    said = laconic("keys", "--trust", trial.root / "copy.public", "--folder", keys, "--fingerprint", digits.strip())
    assert "was taken out" in said.output


@pytest.mark.parametrize(("theirs", "works"), [("0.1.9", True), ("0.2.0", False), ("1.1.0", False), ("", False)])
def test_versions_mix_if_they_differ_in_the_last_number_only(trial, monkeypatch, theirs, works):
    """The insurer has another version; an empty one is of before there were channels."""
    from laconic.deploy.transports import secure_channel

    here = secure_channel.VERSION
    monkeypatch.setattr(secure_channel, "VERSION", theirs or "0.0.1")
    trial.restart("insurer")
    monkeypatch.setattr(secure_channel, "VERSION", here)
    if not theirs:
        trial.desks["insurer"].hear = lambda blob: frame("No", words="not a frame", fault=False)
    hub = trial.hub("insurer")
    if works:
        assert was_answered(hub.greet())
        return
    with pytest.raises(Refused, match=rf"insurer has laconic {theirs or 'of before'}.* install 0\.1\.x at both"):
        hub.greet()
