"""Results of tau-bench: an array of trials, in which an agent talks with a simulated user.

The file names neither the model nor the domain: its name has the model, and the policy in the
first message the domain. A trial that crashed has an error, and the reward that the log states: 0.
"""

import re

from fastrec.harnesses.files import read_rows
from fastrec.harnesses.log import Log, Reading, Sample, plan_of
from fastrec.harnesses.transcripts import trial_of
from fastrec.harnesses.values import Fields, spell
from fastrec.storage import base_name, hash_of_file

# What tau-bench calls its files, and what its published files are called.
_NAME = (
    r"(?:tool-calling-(?=.*_range_))?(.+?)"
    r"(?:-[\d.]+_range_.*|-airline|-retail)?\.json(?:\.\w+)?"
)
_POLICY = re.compile(r"# (\w+) agent policy", re.IGNORECASE)


def read(log: Log) -> Reading:
    rows = read_rows(log.path, "a trial of tau-bench")
    policies = (row.text("traj.0.content") for row in rows if row["traj"])
    domain = _POLICY.match(next(policies, ""))
    name = base_name(log.path)
    named = re.fullmatch(_NAME, name)
    # a trial that crashed does not have its task
    tasks = {spell(row["task_id"]): task for row in rows if (task := row.object("info.task"))}
    return plan_of(
        f"tau_bench_{domain[1].lower()}" if domain else "tau_bench",
        named[1] if named else name,
        hash_of_file(log.path)[1][:16],
        {},
    ), (_sample_of(row, tasks.get(spell(row["task_id"]), Fields())) for row in rows)


def _sample_of(row: Fields, task: Fields) -> Sample:
    judged = row.object("info.reward_info.info")
    return trial_of(
        row["task_id"],
        row["trial"],
        {
            "reward": row["reward"],
            "reward:actions": judged["r_actions"],
            "reward:outputs": judged["r_outputs"],
        },
        task["instruction"],
        task["outputs"],
        chat=row["traj"],
        error=row.text("info.error"),
        fields={"actions": task["actions"], "user_cost": row["info.user_cost"]},
        unread=["traceback"] if row["info.traceback"] else (),
    )
