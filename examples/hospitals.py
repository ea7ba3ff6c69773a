"""Hospitals with other patients and the same columns: `python -m examples.hospitals`.

Each hospital alone, averages of nets, trees in one exchange, an exact model in one exchange, and everything pooled.
"""

from laconic import Analytic, Dirichlet, FedAvg, FedTrees, PooledRows, Result, SoloRows, deal_rows, load
from laconic.deploy import simulate


def main() -> list[Result]:
    """Run all five on the same rows and print them side by side."""
    hospitals = deal_rows(load("breast_cancer"), Dirichlet(parties=4, beta=0.5))
    methods = (SoloRows(), FedAvg(exchanges=5), FedTrees(), Analytic(), PooledRows())
    results = [simulate(method, hospitals, seed=0) for method in methods]
    for result in results:
        words = f"{result.fit.bytes:>9,} bytes {result.fit.rounds:>2} rounds"
        print(f"{result.method['type']:<11} {result.score.metric} {result.score.value:.4f} {words}")
    return results


if __name__ == "__main__":
    main()
