"""Statistics as pure functions on arrays and fractions, which know nothing of corpora.

    exact         doubles that stand for fractions, exact means, standard errors
    repeats       several answers of a model to a question become one value
    intervals     95 % intervals of an accuracy and of a mean score
    agreement     Cohen's kappa of two graders
    calibration   whether stated confidences are right
    paired        two series of values of the same questions: test and power (numpy when it tests)
    p_values      the exact McNemar test and the paired t-test, on arrays (numpy)
    adjust        many p-values: Benjamini and Hochberg for lists of findings, Holm for ranks
    ranks         all pairs of models: sums, tests, rank ranges, wins (numpy)
    bootstrap     draws of questions, and intervals from them (numpy)

Only the modules marked with numpy import it.
"""
