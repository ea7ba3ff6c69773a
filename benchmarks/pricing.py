"""How long it takes to price a federation of a hundred parties, alike and all different.

Usage: python -m benchmarks.pricing [--parties 100]
"""

import argparse
import time

from laconic.privacy import AnyAccountant, Event, Events, Moments, Pld, Rdp, SimpleDivision


def main() -> None:
    """Print a table: a line for each accountant and kind of federation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parties", type=int, default=100, help="how many parties train")
    parties = range(parser.parse_args().parties)
    alike: dict[str, Events] = {str(place): {Event("gaussian", 1.0, 128 / 60_000): 23_437} for place in parties}
    different: dict[str, Events] = {
        str(place): {Event("gaussian", 1.0 + 0.01 * place, (100 + place) / (60_000 + place)): 2000 + place}
        for place in parties
    }
    # Importing the accounting library takes seconds, once.
    Moments().epsilon({"one": {Event("gaussian", 2.0): 1}}, 1e-5)
    accountants: tuple[AnyAccountant, ...] = (Pld(), Rdp(), Moments(), SimpleDivision())
    print("| parties | accountant | epsilon at delta 1e-5 | seconds |")
    print("|---|---|---|---|")
    for name, federation in {"alike": alike, "all different": different}.items():
        for accountant in accountants:
            started = time.perf_counter()
            epsilon = accountant.epsilon(federation, 1e-5)
            spent = time.perf_counter() - started
            print(f"| {len(parties)}, {name} | {type(accountant).__name__} | {epsilon:.3f} | {spent:.2f} |", flush=True)


if __name__ == "__main__":
    main()
