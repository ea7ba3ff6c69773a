"""A privacy budget: what is not covered first, then the epsilon and what it covers: `python -m examples.budget`."""

from laconic import Budget, Equal, FedOnce, Result, deal, fit, load


def main(epsilons: tuple[float, ...] = (1.0, 4.0)) -> list[Result]:
    """Fit FedOnce under several budgets, and print what each costs in score."""
    parties = deal(load("breast_cancer"), Equal(parties=2))
    results = []
    for epsilon in epsilons:
        result = fit(FedOnce(), parties, budget=Budget(epsilon=epsilon, delta=1e-3)).result
        if result is None or result.privacy is None:
            raise ValueError("the run has no price")
        print(f"not covered: {'; '.join(result.privacy.open)}")
        print(f"epsilon {result.privacy.figure}: {result.score.metric} {result.score.value:.4f}")
        results.append(result)
    return results


if __name__ == "__main__":
    main()
