"""The stages of a job: shards, judge, runs, summary. They know nothing of each other."""
