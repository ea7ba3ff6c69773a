"""A key ring: a folder with a party's own keys and the public files of those it trusts."""

import os
from dataclasses import dataclass
from pathlib import Path

from laconic.envelope.keys import PUBLIC, SECRET, PublicKey, SecretKey, load_secret, read_public
from laconic.envelope.refusals import KeyRefused, UnknownKey

PASSPHRASE = "LACONIC_PASSPHRASE"  # noqa: S105 (the variable's name)
"""The environment variable that may hold the passphrase of the secret keys."""


@dataclass(frozen=True)
class KeyRing:
    """Own keys, and everybody's public ones by name.

    Attributes:
        own: this party's keys.
        known: those it trusts, itself included.
    """

    own: SecretKey
    known: dict[str, PublicKey]

    def named(self, name: str) -> PublicKey:
        """The key of a party, by its name."""
        if name not in self.known:
            raise UnknownKey(
                f"there is no public key of {name} in the key ring; it has {', '.join(self.known)}. Get the file "
                f"{name}{PUBLIC} from {name}, and add it with: laconic keys --trust {name}{PUBLIC}"
            )
        return self.known[name]

    def by_fingerprint(self, fingerprint: str) -> PublicKey | None:
        """The trusted key with a fingerprint; None if there is none."""
        return next((key for key in self.known.values() if key.fingerprint == fingerprint), None)


def open_ring(folder: Path, name: str | None = None) -> KeyRing:
    """Read a key ring from its folder.

    Args:
        folder: holds one secret file and any number of public ones.
        name: whose secret keys to take if there are several; None where there is one.
    """
    secrets = sorted(folder.glob(f"*{SECRET}"))
    if name is not None:
        secrets = [path for path in secrets if path.name == f"{name}{SECRET}"]
    if len(secrets) != 1:
        whose = f"of {name} " if name else ""
        what = "are no secret keys" if not secrets else f"are {len(secrets)} secret keys"
        raise KeyRefused(f"there {what} {whose}in {folder}; make some with: laconic keys {name or 'NAME'}")
    own = load_secret(secrets[0], os.environ.get(PASSPHRASE))
    known: dict[str, PublicKey] = {own.public.name: own.public}
    for path in sorted(folder.glob(f"*{PUBLIC}")):
        found = read_public(path)
        if known.setdefault(found.name, found) != found:
            raise KeyRefused(
                f"{path} holds another key of {found.name} than the one trusted; ask {found.name} by phone which is "
                "right, and take the other away"
            )
    return KeyRing(own, known)


def trust(folder: Path, public: Path, fingerprint: str) -> Path:
    """Add a public file to a key ring once its fingerprint was compared.

    Args:
        fingerprint: as its owner read it out; spaces do not matter.
    """
    found = read_public(public)
    if fingerprint.replace(" ", "") != found.fingerprint.replace(" ", ""):
        raise KeyRefused(
            f"the key in {public} has the fingerprint {found.fingerprint}, not {fingerprint}: it is not "
            f"{found.name}'s, or was misread; do not use it before the two agree"
        )
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{found.name}{PUBLIC}"
    if place.exists() and read_public(place) != found:
        raise KeyRefused(f"another key of {found.name} is trusted already, in {place}; take it away first if it is old")
    place.write_text(found.to_text(), encoding="utf-8")
    return place
