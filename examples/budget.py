"""A privacy budget: what is not covered first, then the epsilon and what it covers: `python -m examples.budget`."""

from laconic import Budget, DataPlan, FedOnce, Plan, Result, fit


def main(epsilons: tuple[float, ...] = (1.0, 4.0)) -> list[Result]:
    """Run FedOnce under several budgets, and print what each costs in score."""
    data = DataPlan(name="breast_cancer", parties=2)
    results = [
        fit(Plan(method=FedOnce(), data=data, budget=Budget(epsilon=one, delta=1e-3))).result for one in epsilons
    ]
    for result in results:
        paid = result.privacy
        if paid is None:
            raise ValueError("the run has no price")
        print(f"not covered: {'; '.join(paid.open)}")
        print(f"epsilon {paid.figure} at delta {paid.delta:g}: {result.score.metric} {result.score.value:.4f}")
    return results


if __name__ == "__main__":
    main()
