"""Models as releases: a model stays at its party until it is published, and is priced as if it were."""

from laconic.core.ledger import Entry, Noise
from laconic.core.party import Party
from laconic.core.values import Weights


def write_model(party: Party, step: str, words: str, weights: Weights, noises: tuple[Noise, ...] | None) -> None:
    """Write in the ledger that a model was learnt under these noises; one learnt without noise may not be published."""
    numbers = sum(values.size for values in weights.values())
    for noise in noises or ():
        party.ledger.write(
            Entry(
                phase=party.phase,
                step=step,
                words=words,
                form=f"{numbers} weights",
                times=1,
                bytes=0,
                noise=noise,
                to="whoever is given the model",
            )
        )
