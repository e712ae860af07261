"""Models over several corpora, such as those of successive nights.

    paths ──▶ corpora (`corpora`) ──▶ their summaries ──▶ values per evaluation, metric and model (`collect`)
                                 ──▶ their indexes ──▶ changes between neighbouring corpora that are more than chance

`document` has the result, which `fastrec trend` prints and the HTML report draws.
"""
