# The public names, and where they are: for type checkers, and for `__init__.py`, which reads it.

from fastrec._version import __version__ as __version__
from fastrec.answers.arrays import Columns as Columns
from fastrec.answers.board import Leaderboard as Leaderboard
from fastrec.answers.codes import CodedColumn as CodedColumn
from fastrec.api import (
    SchemaVersion as SchemaVersion,
)
from fastrec.api import (
    Verdict as Verdict,
)
from fastrec.api import (
    decode as decode,
)
from fastrec.api import (
    encode as encode,
)
from fastrec.api import (
    judge as judge,
)
from fastrec.api import (
    read as read,
)
from fastrec.api import (
    schema as schema,
)
from fastrec.api import (
    schema_versions as schema_versions,
)
from fastrec.commands.calibration import Calibrations as Calibrations
from fastrec.commands.calibration import calibration as calibration
from fastrec.commands.cat import cat as cat
from fastrec.commands.check_pairs import PairCheck as PairCheck
from fastrec.commands.check_pairs import check_pairs as check_pairs
from fastrec.commands.clean import Cleaned as Cleaned
from fastrec.commands.clean import clean as clean
from fastrec.commands.compare import Comparison as Comparison
from fastrec.commands.compare import compare as compare
from fastrec.commands.corrected import Corrections as Corrections
from fastrec.commands.corrected import corrected as corrected
from fastrec.commands.costs import Costs as Costs
from fastrec.commands.costs import costs as costs
from fastrec.commands.diff import diff as diff
from fastrec.commands.diff.document import Difference as Difference
from fastrec.commands.export import Exported as Exported
from fastrec.commands.export import export as export
from fastrec.commands.export.tables import batches as batches
from fastrec.commands.export.tables import connect as connect
from fastrec.commands.export.tables import table as table
from fastrec.commands.generate import generate as generate
from fastrec.commands.import_logs import import_logs as import_logs
from fastrec.commands.import_logs.document import Import as Import
from fastrec.commands.items import Items as Items
from fastrec.commands.items import items as items
from fastrec.commands.leaderboard import leaderboard as leaderboard
from fastrec.commands.overlap import Overlap as Overlap
from fastrec.commands.overlap import overlap as overlap
from fastrec.commands.questions import Questions as Questions
from fastrec.commands.questions import questions as questions
from fastrec.commands.rejects import Rejects as Rejects
from fastrec.commands.rejects import rejects as rejects
from fastrec.commands.report import report as report
from fastrec.commands.score import Scored as Scored
from fastrec.commands.score import score as score
from fastrec.commands.show import Shown as Shown
from fastrec.commands.show import show as show
from fastrec.commands.stats import stats as stats
from fastrec.commands.trend import trend as trend
from fastrec.commands.validate import Validation as Validation
from fastrec.commands.validate import validate as validate
from fastrec.commands.verify import Verification as Verification
from fastrec.commands.verify import verify as verify
from fastrec.commands.view import view as view
from fastrec.errors import (
    FastrecError as FastrecError,
)
from fastrec.errors import (
    RefusedError as RefusedError,
)
from fastrec.errors import (
    ShardError as ShardError,
)
from fastrec.errors import (
    UsageError as UsageError,
)
from fastrec.judge.findings import Finding as Finding
from fastrec.judge.findings import InvalidRecordError as InvalidRecordError
from fastrec.normalize.run import normalize as normalize
from fastrec.opened import Corpus as Corpus
from fastrec.opened import open as open  # noqa: A004 - a function of this package
from fastrec.record_writer import Writer as Writer
from fastrec.schemas.hashes import sample_hash as sample_hash
from fastrec.schemas.registry import Record as Record
from fastrec.summary.document import Summary as Summary
from fastrec.summary.present_ranking import Stats as Stats
from fastrec.trends import Trend as Trend
