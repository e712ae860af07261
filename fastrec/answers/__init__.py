"""All questions to a corpus, asked of its columns.

    corpus ──▶ `selection`: which records count ──▶ `records` of a scope, as arrays
           ──▶ `question_table`: questions and what models made of them ──▶ `values` for tests

`codes` has functions on arrays of codes, `counts` and `facts` count, `choosing` opens tables and
chooses scopes, `reading` reads answers from the parts, and `transcript` is the conversation in one.
"""
