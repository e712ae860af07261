"""`normalize`: turn shards into one sorted corpus, in two passes."""
