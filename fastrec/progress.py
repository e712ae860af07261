"""The interface through which a command reports how far it is."""


class Progress:
    """Receives the progress of a command, which works in one or more stages.

    Sizes are bytes of text.

    This class ignores it all. A subclass overrides what it needs.
    """

    def start(self, stage: str, total_bytes: int) -> None:
        """A stage begins. `total_bytes` is an estimate; 0 if there is none."""

    def expect(self, total_bytes: int) -> None:
        """There is a better estimate of the total of this stage."""

    def reuse(self, size: int) -> None:
        """Some bytes are done without work: an earlier run has done them."""

    def advance(self, size: int, records: int, rejects: int) -> None:
        """Some more bytes, records and rejected lines are done."""

    def finish(self) -> None:
        """The stage is over."""
