"""The Structs of the newest schema version, for code that makes records."""

from __future__ import annotations

from fastrec.schemas.v0_2_0 import AnswerAttribution, TokenUsage
from fastrec.schemas.v0_2_1 import Evaluation, Input, Message, Output, Performance, ToolCall
from fastrec.schemas.v0_3_0 import SCHEMA, Record

__all__ = ["SCHEMA", "AnswerAttribution", "Evaluation", "Input", "Message", "Output", "Performance", "Record"]
__all__ += ["TokenUsage", "ToolCall"]
