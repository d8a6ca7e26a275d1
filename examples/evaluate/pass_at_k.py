"""Print pass@k of samples for HumanEval-like tasks: pass_at_k.py PROBLEMS.jsonl SAMPLES.jsonl [K]…"""

import json
import math
import sys
from collections import defaultdict

from assayd_client import PlainClient


def line(problem: dict, completion: str) -> bytes:
    """Return the submission of one sample; the file at its end shows that it did not leave before the test."""
    program = f"{problem['prompt']}{completion}\n\n{problem['test']}\n\ncheck({problem['entry_point']})\n"
    payload = {"code": program + "open('checked', 'w').close()\n", "collect": ["checked"]}
    limits = {"resources": {"unit_timeout_s": 5}}
    labels = {"task": problem["task_id"]}
    return json.dumps({"kind": "script", "payload": payload, "overrides": limits, "labels": labels}).encode() + b"\n"


problems = {problem["task_id"]: problem for problem in map(json.loads, open(sys.argv[1]))}
samples = list(map(json.loads, open(sys.argv[2])))
with PlainClient() as client:
    batch = client.send_batch(line(problems[each["task_id"]], each["completion"]) for each in samples)
    list(client.batch_events(batch["id"]))  # they end with the batch
    passed = defaultdict(list)
    for result in client.batch_results(batch["id"]):
        passed[result["attempt"]["labels"]["task"]].append(result["verdict"] == "validated")
for k in map(int, sys.argv[3:] or ["1"]):
    of = [1 - math.comb(len(each) - sum(each), k) / math.comb(len(each), k) for each in passed.values()]
    print(f"pass@{k} {sum(of) / len(of):.3f}  ({len(of)} tasks, {len(samples)} samples)")
