"""Envelopes put to the test: a million mutants, the time and bytes that sealing costs, and memory for a gigabyte.

Usage: python -m benchmarks.envelopes mutants [--count 1000000] [--insider 100000] [--seed 0]
       python -m benchmarks.envelopes sealing [--rows 500000] [--dim 16]
       python -m benchmarks.envelopes memory [--megabytes 1000]
"""

import argparse
import io
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np

from benchmarks.envelope_mutants import Corpus, insiders, mutants
from laconic.core import encode
from laconic.deploy import KeyRing, SecretKey, make_key
from laconic.deploy.transports.envelopes.keys import Blob, Content, EnvelopeRefused
from laconic.deploy.transports.envelopes.sealing import Expected, check, cover_of, seal
from laconic.values import Array

_MEGABYTE = 10**6


def main() -> None:
    """Print the figures asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["mutants", "sealing", "memory", "seal-file", "open-file"])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--insider", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--megabytes", type=int, default=1000)
    chosen = parser.parse_args()
    if chosen.what == "mutants":
        _print_counts("mutated in any way by an outsider", fuzz(mutants, chosen.count, chosen.seed))
        _print_counts("changed inside and signed by an insider", fuzz(insiders, chosen.insider, chosen.seed))
    elif chosen.what == "sealing":
        _sealing(chosen.rows, chosen.dim)
    elif chosen.what == "memory":
        _memory(chosen.megabytes)
    else:
        _on_file(chosen.what, chosen.folder, chosen.megabytes)


def fuzz(source: object, count: int, seed: int = 0) -> Counter[str]:
    """Try to open so many mutants; how each ended, by the name of its refusal, or `opened`. A crash is raised."""
    ends: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        corpus = Corpus.make(Path(folder))
        for mutant in source(corpus, np.random.default_rng(seed), count):  # type: ignore[operator]
            ends[_try(InMemory(mutant), corpus.reader)] += 1
    return ends


class InMemory:
    """A file that is not on a disk: opening a million real ones takes longer than checking them."""

    def __init__(self, written: bytes) -> None:
        self._written = written

    def is_file(self) -> bool:
        """It is there."""
        return True

    def open(self, mode: str) -> io.BytesIO:
        """Its bytes, as a file."""
        if mode != "rb":
            raise ValueError(f"only to be read, not opened as {mode!r}")
        return io.BytesIO(self._written)


def _try(path: InMemory, reader: KeyRing) -> str:
    try:
        with check(cast("Path", path), reader, Expected("answer")).open(reader.own) as inside:
            for _, pieces in inside.blobs():
                for _ in pieces:
                    pass
    except EnvelopeRefused as problem:
        return type(problem).__name__
    return "opened"


def _print_counts(what: str, ends: Counter[str]) -> None:
    print(f"{sum(ends.values()):,} envelopes {what}; none crashed")
    for name, count in ends.most_common():
        print(f"  {name}: {count:,}")


def _sealing(rows: int, dim: int) -> None:
    """What sealing adds to an answer that is there already, and what it adds to its bytes."""
    shop, bank = make_key("shop"), make_key("bank")
    ring = KeyRing(bank, {"shop": shop.public, "bank": bank.public})
    values = np.random.default_rng(0).normal(size=(rows, dim)).astype(np.float16)
    blob = encode({"train": values})
    print("| rows x dim float16 | payload bytes | envelope bytes | overhead | seal, s | check and open, s |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, one in ((f"{rows:,} x {dim}", blob), ("1 x 1", encode({"train": values[:1, :1]}))):
            path = Path(folder) / "shop.envelope"
            started = time.perf_counter()
            _seal(path, one, shop, bank)
            sealed = time.perf_counter()
            with check(path, ring, Expected("answer")).open(bank) as inside:
                read = b"".join(piece for _, pieces in inside.blobs() for piece in pieces)
            opened = time.perf_counter()
            if read != one:
                raise RuntimeError("what was opened is not what was sealed")
            size = path.stat().st_size
            print(
                f"| {name} | {len(one):,} | {size:,} | {size - len(one):+,} ({size / len(one) - 1:+.1%}) | "
                f"{sealed - started:.2f} | {opened - sealed:.2f} |"
            )


def _seal(path: Path, blob: bytes, own: SecretKey, to: SecretKey) -> None:
    _seal_pieces(path, len(blob), iter([blob]), own, to)


def _seal_pieces(path: Path, size: int, pieces: Iterator[bytes], own: SecretKey, to: SecretKey) -> None:
    told = Blob(script="method", phase="fit", round=1, step="learn_and_send", question="0" * 32,
                words="a few numbers for each row", form="float16", size=size)  # fmt: skip
    content = Content(rows=1, epsilon="none", ledger=(), blobs=(told,))
    cover = cover_of(content, own, to.public, kind="answer", plan="0" * 32, alignment="0" * 32, days=1)
    seal(path, cover, content, [pieces], own, to.public)


def _memory(megabytes: int) -> None:
    """Seal and open a file of representations, each in a process of its own, and read off their most memory."""
    print(f"| {megabytes:,} MB of float16 representations | processor seconds | most memory, MB |")
    print("|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for what in ("seal-file", "open-file"):
            words = [sys.executable, "-m", "benchmarks.envelopes", what, folder, "--megabytes", str(megabytes)]
            done = subprocess.run(words, check=True, capture_output=True, text=True)
            print(done.stdout, end="")


def _on_file(what: str, folder: Path, megabytes: int) -> None:
    path, copy = folder / "shop.envelope", folder / "opened"
    # The same keys on both sides, without a file: this process and its sibling draw them from the same seed.
    shop, bank = _known_key("shop"), _known_key("bank")
    started = time.process_time()
    if what == "seal-file":
        _seal_pieces(path, megabytes * _MEGABYTE, _representations(megabytes), shop, bank)
    else:
        ring = KeyRing(bank, {"shop": shop.public, "bank": bank.public})
        with check(path, ring, Expected("answer")).open(bank) as inside, copy.open("wb") as file:
            for _, pieces in inside.blobs():
                for piece in pieces:
                    file.write(piece)
        if copy.stat().st_size != megabytes * _MEGABYTE:
            raise RuntimeError("what was opened is not as long as what was sealed")
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(f"| {what.split('-', maxsplit=1)[0]} | {seconds:.1f} | {peak:.0f} |")


def _representations(megabytes: int) -> Iterator[bytes]:
    """Numbers as an encoder would put them out, batch after batch."""
    rng = np.random.default_rng(0)
    for _ in range(megabytes):
        batch: Array = rng.normal(size=_MEGABYTE // 2).astype(np.float16)
        yield batch.tobytes()


def _known_key(name: str) -> SecretKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    from laconic.deploy.transports.envelopes.keys import with_public

    seed = name.encode().ljust(32, b"\1")
    return with_public(name, Ed25519PrivateKey.from_private_bytes(seed), X25519PrivateKey.from_private_bytes(seed))


if __name__ == "__main__":
    main()
