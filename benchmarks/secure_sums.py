"""What a secure sum costs beside an open one: bytes, a party's time, and whether lost parties change the sum.

    python -m benchmarks.secure_sums [--parties 50] [--numbers 1000000] [--lost 10] [--keys each] [--out FILE]

Every party is asked in this process, one after the other, through the encoder that counts bytes on every transport. A
party's time is processor time for all its answers of one sum, in which it draws its numbers too. The open sum sends
the same numbers as float32. With `--keys once` the exchange of keys, which later sums spare, is counted too. A sum is
exact if it is, to the bit, that of the numbers rounded to the sum's own step.
"""

import argparse
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from laconic.core import Blob, Carrier, Ledger, Party, Peers, Script, WireLog, decode_question, step
from laconic.core.ledger import Masked
from laconic.deploy import open_calls
from laconic.methods import SecureSums
from laconic.methods.families.sums import agree_keys, confirm_present, share_secrets, take_keys, unmask
from laconic.privacy.encryption import FixedPoint
from laconic.tables import Table
from laconic.values import Array

STEPS = {
    "each": ("agree_keys", "share_secrets", "send", "unmask"),
    "once": ("agree_keys", "take_keys", "send", "unmask"),
}


class Bulk(Script, frozen=True):
    """Many numbers of each party, to be summed up."""

    numbers: int
    sums: SecureSums | None = SecureSums()

    agree_keys, share_secrets, take_keys = agree_keys, share_secrets, take_keys
    confirm_present, unmask = confirm_present, unmask

    @step(takes=None, gives="many numbers", by_row=False)
    def send(self, party: Party) -> Array | Masked[Any]:
        """Numbers of this party."""
        numbers = numbers_of(party.name, self.numbers)
        return numbers if self.sums is None else self.sums.hide(party, {"numbers": numbers})


def numbers_of(name: str, count: int) -> Array:
    """A party's numbers, the same whenever they are asked for."""
    return np.random.default_rng(list(name.encode())).normal(size=count).astype(np.float32)


class Timed:
    """A carrier that takes the time of each party, and of which some are gone from one step on."""

    def __init__(self, within: Carrier, gone: tuple[str, ...], step: str) -> None:
        self.names, self.seconds = within.names, dict.fromkeys(within.names, 0.0)
        self._within, self._gone, self._step, self._off = within, gone, step, False

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, Blob]]:
        """Ask one after the other."""
        self._off = self._off or any(decode_question(blob).step == self._step for blob in blobs.values())
        for name, blob in blobs.items():
            if self._off and name in self._gone:
                continue
            before = time.process_time()
            found = list(self._within.carry(script, {name: blob}, deadline))
            self.seconds[name] += time.process_time() - before
            yield from found

    def ledgers(self) -> dict[str, Ledger]:
        """As of the carrier within."""
        return self._within.ledgers()


def measure(parties: int, count: int, gone: tuple[str, ...], step_name: str, sums: SecureSums) -> str:
    """One secure sum from which some parties drop out, as a line of the table."""
    script, log, hub = Bulk(numbers=count, sums=sums), WireLog(), _party("server")
    begin = time.process_time()
    with open_calls(tuple(_party(f"p{at:02}") for at in range(parties))) as carrier:
        timed = Timed(carrier, gone, step_name)
        total = sums.over_several(
            script, Peers(script, hub, timed, log, timed.names), script.send, {"numbers": np.zeros(count)}, {}, {}
        )
    whole = FixedPoint(sums.bound, total.agreed)
    wanted: Array = np.zeros(count, dtype=np.uint64)
    for name in total.parties:
        wanted += whole.write(numbers_of(name, count))
    exact = "yes" if np.array_equal(whole.read(wanted), total.parts["numbers"]) else "NO"
    crossed = [(one.down + (one.up or 0)) for one in log.crossings]
    opened = len(total.parties) * (4 * count)
    slowest, server = max(timed.seconds.values()), time.process_time() - begin - sum(timed.seconds.values())
    lost = f"{len(gone)} at `{step_name}`" if gone else "nobody"
    return (
        f"| {lost} | {len(total.parties)} | {exact} | {sum(crossed) / 1e6:.1f} | {sum(crossed) / opened:.2f} | "
        f"{slowest:.2f} | {server:.1f} |"
    )


def _party(name: str) -> Party:
    return Party(name, Table.without_rows(name), 0)


def main() -> None:
    """Print the table, and write it to a file if one is named."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--parties", type=int, default=50)
    parser.add_argument("--numbers", type=int, default=1_000_000)
    parser.add_argument("--lost", type=int, default=10)
    parser.add_argument("--keys", choices=("each", "once"), default="each")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    gone = tuple(f"p{at:02}" for at in range(0, asked.parties, max(1, asked.parties // max(asked.lost, 1))))[
        : asked.lost
    ]
    sums = SecureSums(keys=asked.keys)
    lines = [
        f"# A secure sum over {asked.parties} parties of {asked.numbers:,} numbers each",
        "",
        f"`python -m benchmarks.secure_sums --parties {asked.parties} --numbers {asked.numbers} --lost {asked.lost} "
        f"--keys {asked.keys}`; "
        "one core of a shared machine. Bytes both ways; an open sum is float32, of the parties that are in the sum.",
        "",
        "| lost | in the sum | exact | MB, all | times the open sum | slowest party, s | server, s |",
        "|---|---|---|---|---|---|---|",
        measure(asked.parties, asked.numbers, (), "", sums),
        *(measure(asked.parties, asked.numbers, gone, one, sums) for one in STEPS[asked.keys]),
    ]
    print("\n".join(lines))
    if asked.out is not None:
        asked.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
