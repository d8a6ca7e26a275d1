"""A reward function for verl: the share of hidden tests that a response passes.

    custom_reward_function.path=examples/evaluate/verl_reward.py custom_reward_function.name=compute_score

`ground_truth` is JSON with `entry_point` and `tests`. verl has no reward for "not judged", so this tries again
for about a minute and then raises: a busy daemon must not count as a wrong answer.
"""

import json

from assayd_client.rewards import HiddenTests, score

TRIES = 10


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **more):
    tests = HiddenTests(**json.loads(ground_truth))
    for _ in range(TRIES):
        (reward,) = score([solution_str], tests)
        if reward is not None:
            return reward
    raise RuntimeError("the daemon could not judge the response; see `assay doctor`")
