"""Questions and answers that could be from an evaluation, made from templates: one module per kind of task.

Tables of texts are in TOML files beside the modules. All facts are common knowledge in our own words.
"""
