"""From `laconic run` to a party's arithmetic are few calls, so that a stack trace can be read."""

import sys

from click.testing import CliRunner

from laconic.cli import main
from laconic.learn import BestEncoder

MOST_FRAMES = 13


def test_at_most_thirteen_frames_from_the_command_to_a_partys_arithmetic(monkeypatch):
    """Counts every frame, whoever's code it is, from the function of the command to the encoder's `fit`, both included.

    Above the command is click's; below `fit` there is nothing but what the encoder computes. With more cores, the
    guests of FedOnce answer in threads, whose stacks begin at the pool: on one core the whole way is one stack.
    """
    monkeypatch.setattr("laconic.deploy.transports.inprocess.cores", lambda: 1)
    stacks, fit = [], BestEncoder.fit

    def watched(encoder, x, rng):
        frame, names = sys._getframe(), []
        while frame is not None:
            names.append(f"{frame.f_globals['__name__']}.{frame.f_code.co_name}")
            frame = frame.f_back
        stacks.append(names[::-1])
        return fit(encoder, x, rng)

    monkeypatch.setattr(BestEncoder, "fit", watched)
    command = ["run", "FedOnce", "--data", "breast_cancer", "--set", "method.trainer.epochs=1"]
    assert CliRunner().invoke(main, command).exit_code == 0
    ways = [stack[stack.index("laconic.cli.run.run") :] for stack in stacks]
    assert [way for way in ways if len(way) > MOST_FRAMES] == []
    assert len(ways) == 2  # One party has the labels; the others fit an encoder each.
