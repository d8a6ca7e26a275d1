"""A reward function for TRL's GRPOTrainer: the share of hidden tests that each completion passes.

    trainer = GRPOTrainer(model=..., reward_funcs=[hidden_tests], train_dataset=dataset, args=...)

The dataset has the columns `prompt`, `tests` (Python text or a list of assertions) and `entry_point`. A reward
is None if the daemon could not judge the completion; TRL then leaves it out of the update.
"""

from assayd_client.rewards import HiddenTests, score


def hidden_tests(prompts, completions, completion_ids, tests, entry_point, **columns):
    answers = [one if isinstance(one, str) else one[-1]["content"] for one in completions]
    hidden = [
        HiddenTests(entry_point=name, tests=text) for name, text in zip(entry_point, tests, strict=True)
    ]
    return score(answers, hidden, workers=64)
