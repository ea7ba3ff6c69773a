"""What a server has done, in the text form that Prometheus reads."""

from threading import Lock

_EDGES = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Counts:
    """Counters of requests, people and absences, and a histogram of how long predictions took."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._sums: dict[tuple[str, str], float] = {}
        self._buckets = [0] * (len(_EDGES) + 1)
        self._seconds = 0.0

    def add(self, name: str, label: str = "", amount: float = 1) -> None:
        """Count something; `label` is `key="value"`."""
        with self._lock:
            self._sums[name, label] = self._sums.get((name, label), 0) + amount

    def took(self, seconds: float) -> None:
        """Note how long a prediction took."""
        with self._lock:
            self._buckets[sum(edge < seconds for edge in _EDGES)] += 1
            self._seconds += seconds

    def text(self) -> str:
        """All of it."""
        lines = []
        with self._lock:
            for name in dict.fromkeys(name for name, _ in self._sums):
                lines.append(f"# TYPE laconic_{name} counter")
                for (other, label), value in self._sums.items():
                    if other == name:
                        lines.append(f"laconic_{name}{{{label}}} {value:g}" if label else f"laconic_{name} {value:g}")
            lines.append("# TYPE laconic_predict_seconds histogram")
            total = 0
            for edge, count in zip((*_EDGES, "+Inf"), self._buckets, strict=True):
                total += count
                lines.append(f'laconic_predict_seconds_bucket{{le="{edge}"}} {total}')
            lines += [f"laconic_predict_seconds_sum {self._seconds:g}", f"laconic_predict_seconds_count {total}"]
        return "\n".join(lines) + "\n"
