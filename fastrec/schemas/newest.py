"""The Structs of the newest schema version, for code that makes records."""

from fastrec.schemas.v0_2_0 import AnswerAttribution, TokenUsage
from fastrec.schemas.v0_3_0 import (
    SCHEMA,
    Evaluation,
    Input,
    Message,
    Output,
    Performance,
    Record,
    ToolCall,
)

__all__ = [
    "SCHEMA",
    "AnswerAttribution",
    "Evaluation",
    "Input",
    "Message",
    "Output",
    "Performance",
    "Record",
    "TokenUsage",
    "ToolCall",
]
