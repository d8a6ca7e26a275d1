"""A reward function for a Rubric of verifiers: the share of hidden tests that a completion passes.

    rubric = vf.Rubric(funcs=[hidden_tests])

The dataset's `info` has `entry_point` and `tests`. A Rubric counts an exception as 0, so this waits until the
daemon has judged: a busy daemon must not count as a wrong answer.
"""

from assayd_client.rewards import HiddenTests, score_async


async def hidden_tests(completion, info, **more):
    answer = completion if isinstance(completion, str) else completion[-1]["content"]
    reward = None
    while reward is None:
        (reward,) = await score_async([answer], HiddenTests(**info))
    return reward
