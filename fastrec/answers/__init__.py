"""All questions to a corpus, asked of its columns.

    corpus ──▶ selection: which records count ──▶ records of a scope, as arrays ──▶ index: questions
    and their answers

`selection` applies filters and groups, `records` loads arrays, `counts` and `facts` count,
`reading` reads answers from the parts, and `transcript` is the conversation in one.
"""
