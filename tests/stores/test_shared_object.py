"""Objects that several runs write: a store that refuses a request is never overwritten anyway."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

pytest.importorskip("fsspec")
from fastrec.storage import shared_object
from fastrec.storage.object_store import OBJECT_STORE
from fastrec.storage.shared_object import ChangedError, SharedObject
from tests.stores.fake import FakeStore, Faults, refused

PATH = "fake://bucket/lease"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    monkeypatch.setattr(shared_object, "_WAIT_SECONDS", 0.001)
    yield Faults()
    Faults()


def put(data: bytes) -> None:
    FakeStore().pipe_file(PATH, data)


def content() -> bytes | None:
    return SharedObject(OBJECT_STORE, PATH).read()


def refusing(store: Faults, error: Exception, times: int = 1_000, method: str = "PUT") -> None:
    """Refuse requests that write, some times."""
    left = [error] * times

    def before(request: str) -> None:
        if request.startswith(method) and left:
            raise left.pop()

    store.before = before


@pytest.mark.parametrize("conditions", ["kept", "unsupported"])
@pytest.mark.parametrize("known", [None, b"known"])
def test_what_another_process_wrote_stays(
    known: bytes | None, conditions: str, store: Faults
) -> None:
    """It was written after this process looked: if there was no object, and if there was one."""
    store.conditions = conditions
    if known:
        put(known)
    ours = SharedObject(OBJECT_STORE, PATH)
    assert ours.read() == known
    put(b"theirs")
    with pytest.raises(ChangedError):
        ours.write(b"ours")
    with pytest.raises(ChangedError):
        SharedObject(OBJECT_STORE, PATH).write(b"ours")  # it never looked
    assert content() == b"theirs"


@pytest.mark.parametrize("conditions", ["kept", "ignored", "unsupported"])
def test_an_object_is_created_changed_and_removed(conditions: str, store: Faults) -> None:
    """Whatever the store can do; it is known whether it can."""
    store.conditions = conditions
    ours = SharedObject(OBJECT_STORE, PATH)
    assert ours.read() is None
    for data in (b"one", b"two", b"three"):
        ours.write(data)
        assert content() == data
        assert ours.is_conditional() == (conditions == "kept")
    ours.remove()
    assert content() is None


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (refused(409, "ConditionalRequestConflict"), errno.EBUSY),
        (refused(412, "PreconditionFailed", errno.EINVAL), errno.EAGAIN),
        (refused(500, "InternalError"), errno.EIO),
        (PermissionError(errno.EACCES, "Access Denied"), errno.EACCES),
        (TimeoutError(errno.ETIMEDOUT, "no answer"), errno.ETIMEDOUT),
        (ValueError("the connection is closed"), errno.EIO),
    ],
    ids=str,
)
def test_no_refusal_leads_to_a_plain_write(error: Exception, raised: int, store: Faults) -> None:
    """s3fs makes a plain OSError of a conflict.

    Only a store without conditional requests gets plain ones.
    """
    ours = SharedObject(OBJECT_STORE, PATH)
    ours.read()
    put(b"theirs")
    refusing(store, error)
    with pytest.raises(OSError) as found:
        ours.write(b"ours")
    assert found.value.errno == raised
    assert content() == b"theirs"


@pytest.mark.parametrize(
    "error",
    [
        refused(501, "NotImplemented", errno.ENOSYS),
        NotImplementedError(),
        TypeError("pipe_file() got an unexpected keyword argument 'mode'"),
        ValueError("unsupported file mode"),
    ],
    ids=str,
)
def test_a_store_without_conditions_gets_plain_requests(error: Exception, store: Faults) -> None:
    """After the object was read again."""
    ours = SharedObject(OBJECT_STORE, PATH)
    ours.read()
    refusing(store, error, 1)
    ours.write(b"ours")
    assert content() == b"ours"
    put(b"theirs")
    with pytest.raises(ChangedError):
        ours.write(b"ours again")
    with pytest.raises(ChangedError):
        ours.remove()
    assert content() == b"theirs"


def test_a_conflict_is_retried(store: Faults) -> None:
    """Two requests at the same moment: the store asks to try again, and then decides."""
    ours = SharedObject(OBJECT_STORE, PATH)
    ours.read()
    refusing(store, refused(409, "ConditionalRequestConflict"), 2)
    ours.write(b"ours")
    assert content() == b"ours"


def test_an_object_that_is_gone_is_not_created_again(store: Faults) -> None:
    """A lease that its run has removed, for example."""
    put(b"known")
    ours = SharedObject(OBJECT_STORE, PATH)
    ours.read()
    store.objects.clear()
    for change in (lambda: ours.write(b"ours"), ours.remove):
        with pytest.raises(ChangedError):
            change()
    assert content() is None


def test_a_store_that_cannot_remove_conditionally(store: Faults) -> None:
    """The object is removed all the same; one that changes at this moment stays."""
    ours = SharedObject(OBJECT_STORE, PATH)
    ours.read()
    ours.write(b"ours")
    refusing(store, refused(409, "ConditionalRequestConflict"), method="DELETE")
    with pytest.raises(ChangedError):
        ours.remove()
    refusing(store, refused(501, "NotImplemented", errno.ENOSYS), 1, method="DELETE")
    ours.remove()
    assert content() is None
