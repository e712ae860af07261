"""Partial views of a record."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from fastrec.schemas.view import view, view_decoder
from tests.samples import sample_of

LINE = msgspec.json.encode(sample_of("0.3.0", "single_turn"))


def test_a_view_has_its_fields_and_skips_all_others() -> None:
    decode = view_decoder(model_id=str, evaluation=view(score=Raw), absent=(str, "none"))
    found = decode(memoryview(LINE))
    record = msgspec.json.decode(LINE)
    assert found.model_id == record["model_id"]
    assert msgspec.json.decode(found.evaluation.score) == record["evaluation"]["score"]
    assert found.absent == "none"
    assert found.__struct_fields__ == ("model_id", "evaluation", "absent")


def test_a_field_without_a_default_is_required() -> None:
    with pytest.raises(msgspec.ValidationError, match="missing required field `absent`"):
        view_decoder(absent=str)(LINE)


def test_a_field_may_have_another_name_than_its_key() -> None:
    turns = msgspec.field(name="messages", default=None)
    assert view_decoder(turns=(list[Raw] | None, turns))(b'{"messages": [1]}').turns == [Raw(b"1")]


def test_two_views_with_an_empty_default_do_not_share_it() -> None:
    decode = view_decoder(metadata=(dict[str, str], {}))
    first = decode(b"{}")
    first.metadata["a"] = "b"
    assert decode(b"{}").metadata == {}
