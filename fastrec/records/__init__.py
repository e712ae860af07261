"""Everything that knows the shape of a record: the schema file, its Structs, and their widening to unknown keys.

A second version of the schema is a second module beside `v0_2_0`, and a choice here.
"""

from fastrec.records.build import build
from fastrec.records.shape import SCHEMA_FILE, Field, Shape, record_shape, schema_bytes, schema_document
from fastrec.records.v0_2_0 import (
    SCHEMA_VERSION,
    AnswerAttribution,
    Evaluation,
    Input,
    Interaction,
    Output,
    Performance,
    Record,
    TokenUsage,
    ToolCall,
    drop_nulls,
    follows_rules,
)
from fastrec.records.widen import can_widen, widen

__all__ = [
    "SCHEMA_FILE",
    "SCHEMA_VERSION",
    "AnswerAttribution",
    "Evaluation",
    "Field",
    "Input",
    "Interaction",
    "Output",
    "Performance",
    "Record",
    "Shape",
    "TokenUsage",
    "ToolCall",
    "build",
    "can_widen",
    "drop_nulls",
    "follows_rules",
    "record_shape",
    "schema_bytes",
    "schema_document",
    "widen",
]
