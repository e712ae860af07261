"""The answers of all models to each question of a corpus.

    corpus ──▶ one parallel scan ──▶ index, kept in the cache directory ──▶ questions ──▶ the answers to one of them

`index` opens or builds the index, `reading` reads answers from the parts, and `transcript` is the conversation in one.
"""
