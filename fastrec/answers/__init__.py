"""The answers of all models to each question of a corpus.

    corpus ──▶ one parallel scan ──▶ index, kept in the cache directory ──▶ questions ──▶ the answers to one of them

`index` opens the index of a corpus, and builds it if there is none. `table` has what it says about questions.
`answer` is one answer to a question, read from its part, and `transcript` the conversation that led to it.
"""
