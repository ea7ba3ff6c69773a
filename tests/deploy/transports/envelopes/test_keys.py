import stat

import pytest

from laconic.deploy.transports.envelopes.keys import (
    KeyRefused,
    UnknownKey,
    load_secret,
    make_key,
    open_ring,
    parse_public,
    read_public,
    save_key,
    trust,
)


def test_keys_are_read_back_and_only_their_owner_can(tmp_path):
    made = make_key("bank")
    secret, public = save_key(made, tmp_path)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert load_secret(secret).public == made.public == read_public(public)


def test_a_fingerprint_is_forty_digits_and_no_two_are_alike():
    one, other = make_key("bank").public, make_key("bank").public
    assert [len(group) for group in one.fingerprint.split()] == [5] * 8
    assert one.fingerprint.replace(" ", "").isdigit()
    assert one.fingerprint != other.fingerprint


def test_keys_are_never_written_over(tmp_path):
    save_key(make_key("bank"), tmp_path)
    with pytest.raises(KeyRefused, match=r"keys in .* already"):
        save_key(make_key("bank"), tmp_path)


def test_a_passphrase_locks_the_secret_file(tmp_path):
    secret, _ = save_key(make_key("bank"), tmp_path, "correct horse")
    assert load_secret(secret, "correct horse").public.name == "bank"
    with pytest.raises(KeyRefused, match="is the passphrase right"):
        load_secret(secret, "battery")
    with pytest.raises(KeyRefused, match="needs a passphrase"):
        load_secret(secret)


def test_a_secret_file_open_to_others_is_refused(tmp_path):
    secret, _ = save_key(make_key("bank"), tmp_path)
    secret.chmod(0o644)
    with pytest.raises(KeyRefused, match="chmod 600"):
        load_secret(secret)


@pytest.mark.parametrize("name", ["", " bank", "../bank", ".bank", "a\nb", "x" * 101])
def test_names_that_make_no_file_or_cover_are_refused(name):
    with pytest.raises(KeyRefused, match="a party's name"):
        make_key(name)


def test_a_public_file_with_any_byte_changed_is_refused():
    written = make_key("bank").public.to_text().encode()
    for at in range(len(written)):
        with pytest.raises(KeyRefused, match="damaged"):
            parse_public(written[:at] + bytes([written[at] ^ 1]) + written[at + 1 :], "bank.public")


def test_a_key_ring_trusts_whose_fingerprint_was_compared(tmp_path):
    save_key(make_key("bank"), tmp_path / "bank")
    shop = make_key("shop")
    _, public = save_key(shop, tmp_path / "shop")
    with pytest.raises(KeyRefused, match="do not use it"):
        trust(tmp_path / "bank", public, "00000 " * 8)
    with pytest.raises(UnknownKey, match="no public key of shop"):
        open_ring(tmp_path / "bank").named("shop")
    trust(tmp_path / "bank", public, shop.public.fingerprint)
    assert open_ring(tmp_path / "bank").named("shop") == shop.public


def test_a_second_key_of_one_name_is_not_trusted_beside_the_first(tmp_path):
    save_key(make_key("bank"), tmp_path / "bank")
    for number in range(2):
        shop = make_key("shop")
        _, public = save_key(shop, tmp_path / f"shop{number}")
        if number:
            with pytest.raises(KeyRefused, match="another key of shop"):
                trust(tmp_path / "bank", public, shop.public.fingerprint)
            (tmp_path / "bank" / "new.public").write_text(shop.public.to_text())
            with pytest.raises(KeyRefused, match="holds another key of shop"):
                open_ring(tmp_path / "bank")
        else:
            trust(tmp_path / "bank", public, shop.public.fingerprint)


def test_a_folder_without_keys_says_how_to_make_some(tmp_path):
    with pytest.raises(KeyRefused, match="laconic keys bank"):
        open_ring(tmp_path, "bank")
