from click.testing import CliRunner

from laconic.cli import main
from laconic.deploy import read_public


def keys(*words, said=None):
    return CliRunner().invoke(main, ["keys", *map(str, words)], input=said)


def test_two_parties_exchange_keys_by_file_and_phone(tmp_path):
    bank, shop = tmp_path / "bank", tmp_path / "shop"
    assert keys("bank", "--folder", bank).exit_code == 0
    made = keys("shop", "--folder", shop)
    digits = made.output.splitlines()[-1].strip()
    assert digits == read_public(shop / "shop.public").fingerprint
    assert digits in keys("--show", shop / "shop.public").output
    refused = keys("--trust", shop / "shop.public", "--folder", bank, said="1" * 40)
    assert refused.exit_code == 1
    assert "do not use it before the two agree" in refused.output
    assert keys("--trust", shop / "shop.public", "--folder", bank, said=digits).exit_code == 0
    listed = keys("--folder", bank).output
    assert listed.startswith("bank: ")
    assert f"shop: {digits}" in listed


def test_a_second_pair_of_one_name_is_refused(tmp_path):
    keys("bank", "--folder", tmp_path)
    again = keys("bank", "--folder", tmp_path)
    assert again.exit_code == 1
    assert "there are keys in" in again.output


def test_a_passphrase_is_asked_for_twice_and_needed_later(tmp_path):
    assert keys("bank", "--folder", tmp_path, "--passphrase", said="one\none\n").exit_code == 0
    assert "needs a passphrase" in keys("--folder", tmp_path).output
