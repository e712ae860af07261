"""`overlap`: what models or evaluations have in common, and why not more.

models         questions that the models of an evaluation have in common (`joins`)
evaluations    questions that evaluations have in common (`evaluations`)
names          models whose names differ only in spelling (`names`)
hashes         how producers computed `sample_hash`, from the summary
"""

from collections import Counter
from typing import Unpack

from fastrec.answers.choosing import choose_scopes, open_index
from fastrec.answers.similar_names import SimilarModels, compare_similar
from fastrec.commands.overlap.evaluations import SharedQuestions, find_shared
from fastrec.commands.overlap.joins import EvaluationJoins, find_joins
from fastrec.errors import UsageError, check_choice
from fastrec.filters import FilterArguments, make_filters
from fastrec.notebook import Rows, Tabular, flat
from fastrec.parameters import CORES, AnyPath
from fastrec.progress import Progress
from fastrec.summary.document import ModelRecipes
from fastrec.summary.present_choice import choose

OVERLAPS = ("models", "evaluations", "names", "hashes")


class Overlap(Tabular):
    """What models or evaluations have in common: one of the lists, the others are null."""

    #: Which questions the chosen models have in common.
    models: list[EvaluationJoins] | None = None
    #: Pairs of evaluations with questions in common.
    evaluations: list[SharedQuestions] | None = None
    #: Pairs of chosen models whose names differ only in spelling.
    names: list[SimilarModels] | None = None
    #: By chosen evaluation and model.
    hashes: list[ModelRecipes] | None = None

    def rows(self) -> Rows:
        """A row for each pair of models or evaluations, or for each model and recipe."""
        rows = [row for joins in self.models or () for row in joins.rows()]
        rows += [flat(pair) for pair in [*(self.evaluations or ()), *(self.names or ())]]
        for model in self.hashes or ():
            names = {"evaluation_name": model.evaluation_name, "model_id": model.model_id}
            for recipe in recipes_of([model]):
                rows.append(names | {"recipe": recipe, "lines": model.recipes[recipe]})
        return rows


def recipes_of(models: list[ModelRecipes]) -> list[str]:
    """List the recipes in order: R1 to R10, then absent and wrong."""
    names = {name for model in models for name in model.recipes}
    return sorted(names, key=lambda name: (name[0] != "R", len(name), name))


def overlap(
    corpus: AnyPath,
    *,
    by: str = "models",
    metrics: str = "judgements",
    jobs: int = CORES,
    progress: Progress | None = None,
    **filters: Unpack[FilterArguments],
) -> Overlap:
    """Find out what models or evaluations have in common.

    Args:
        corpus: A directory or URL that `normalize` published.
        by: `models` have questions in common, or something keeps these apart; `evaluations` have
            questions in common; `names` of models differ only in spelling; `hashes` have a recipe.
        metrics: Which metrics count if none is chosen by name: `judgements`, or `all`.
        jobs: Processes to use if the text of records has to be read.
        progress: Receives the progress of it.
        **filters: Only records that match these (`FilterArguments`).

    Raises:
        UsageError: An argument is wrong, or a pattern matches nothing.
        CorpusError: A file of the corpus is damaged.
        ShardError: A part cannot be read completely.
    """
    check_choice("by", by, OVERLAPS)
    by_name, by_record = make_filters(**filters).split()
    if by == "hashes" and by_record:
        raise UsageError(
            f"the hashes of producers are counted for all records of a model: leave out {by_record}"
        )
    index = open_index(corpus, by_record, jobs=jobs, progress=progress)
    if by == "models":
        return Overlap(models=find_joins(index, choose_scopes(index.scopes, by_name, metrics)))
    if by == "evaluations":
        queries = [query for _, query in choose_scopes(index.scopes, by_name, "all")]
        return Overlap(evaluations=find_shared(index, queries))
    records = Counter[str]()
    chosen = set()
    for evaluation in choose(index.evaluations, by_name, metrics=metrics):
        for model in evaluation.by_model:
            records[model.model_id] += model.records
            chosen.add((evaluation.evaluation_name, model.model_id))
    if by == "names":
        return Overlap(names=compare_similar(index, records))
    recipes = index.selection.summary.sample_hash.by_model
    return Overlap(
        hashes=[model for model in recipes if (model.evaluation_name, model.model_id) in chosen]
    )
