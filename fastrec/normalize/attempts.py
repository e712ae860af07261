"""Attempts to make a corpus, or to plan one.

A run starts again if its target was guessed wrong, or if kept work turns out to be damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from fastrec.corpus.output import Output
from fastrec.corpus.publish import too_little_space
from fastrec.engine.base import Engine
from fastrec.errors import DamagedFileError, shown
from fastrec.normalize.base import Base, base_of, no_base
from fastrec.normalize.context import RunContext
from fastrec.normalize.driver import settings_of
from fastrec.normalize.inputs import Streams
from fastrec.normalize.kept import Kept, recover_kept, why_damaged, why_unusable
from fastrec.normalize.options import AUTO, Options
from fastrec.normalize.pass1 import WrongTargetError, guess_target, prepare_judge
from fastrec.normalize.resume import Journal, settings_in
from fastrec.progress import Progress
from fastrec.schemas.registry import NEWEST_SCHEMA, TARGETS
from fastrec.schemas.schema import Schema
from fastrec.sources.shard import Shard
from fastrec.storage import storage_of

Result = TypeVar("Result")


def find_kept(output: Output) -> Kept | str | None:
    """Read what the last run kept; None if there is nothing, or why it cannot be read."""
    kept = recover_kept(output.kept_path, output.next_kept_path)
    if kept is None and output.holds_work():
        journal = output.working("journal")
        is_interrupted = output.earlier_journals() or storage_of(journal).exists(journal)
        return None if is_interrupted else f"{shown(output.kept_path)} is missing"
    return kept


class Attempts:
    """Makes or plans a corpus, in one attempt or several."""

    def __init__(
        self,
        shards: Sequence[Shard],
        options: Options,
        output: Output,
        *,
        progress: Progress,
        notice: Callable[[str], None],
        found_at: int,
        kept: Kept | str | None,
    ) -> None:
        """Choose the first target; `kept` is what the last run kept, or why that cannot be read."""
        self.shards = shards
        self.options = options
        self.output = output
        self.progress = progress
        self.notice = notice
        self.found_at = found_at
        self.kept = kept
        self.said: set[str] = set()  # notices: a further attempt does not repeat them
        if isinstance(kept, str):
            self._discard(kept)
        self._target = self._first_target([output.working("journal"), *output.earlier_journals()])

    def run(self, make: Callable[[Sequence[Shard], RunContext, Base], Result], engine: Engine) -> Result:
        """Make something of the shards, the context of the attempt, and its base."""
        options, is_auto, target = self.options, self.options.schema == AUTO, self._target
        path, earlier = self.output.working("journal"), self.output.earlier_journals()
        streams = Streams(kept=is_auto and any(shard.stream for shard in self.shards))
        target_is_guess, is_first = is_auto, True
        while True:
            chosen = options.with_target(target)
            settings = settings_of(chosen, is_auto=is_auto)
            base = self._base(settings, engine)
            wanted = [shard for number, shard in enumerate(self.shards) if number not in base.unchanged]
            if is_first and (scarce := too_little_space(self.output, wanted)):
                self._say(scarce)
            with Journal(path, settings, earlier) as journal:
                if journal.discarded and is_first:
                    self._say(f"finished work of an interrupted run is not reused: {journal.discarded}")
                context = RunContext(
                    chosen,
                    self.output,
                    engine,
                    journal,
                    self.progress,
                    self._say,
                    is_auto,
                    target_is_guess,
                    streams,
                    self.found_at,
                    is_first,
                )
                is_first = False
                try:
                    return make(self.shards, context, base)
                except WrongTargetError as exc:
                    self._say(str(exc))
                    target = exc.target
                    # The default version is certain: the whole input was read. The newest one is not if a bad shard had
                    # the later record.
                    target_is_guess = target is NEWEST_SCHEMA
                except DamagedFileError as exc:
                    if exc.path not in base.files:
                        raise
                    self._discard(str(exc))

    def _first_target(self, journals: Sequence[str]) -> Schema:
        """Return the target of the work that can be reused; else guess it."""
        options, is_auto = self.options, self.options.schema == AUTO
        targets = list(TARGETS.values()) if is_auto else [options.target]
        purposes = [settings_of(options.with_target(target), is_auto=is_auto) for target in targets]
        found = settings_in(journals, purposes)
        if found is None and isinstance(self.kept, Kept) and options.incremental:
            usable = (at for at, settings in enumerate(purposes) if why_unusable(self.kept, settings) is None)
            found = next(usable, None)
        if found is not None:
            return targets[found]
        target = guess_target(self.shards, options)
        prepare_judge(target, self.shards, options)  # workers that are forked later inherit it
        return target

    def _base(self, settings: dict[str, object], engine: Engine) -> Base:
        """Return the kept work that this run can build on."""
        kept, by_content = self.kept, self.options.check == "content"
        if not isinstance(kept, Kept):
            return no_base(self.shards)
        if not self.options.incremental:
            return no_base(self.shards, kept)
        if reason := why_unusable(kept, settings):
            self._discard(reason)
            return no_base(self.shards, kept)  # if this run is interrupted, one like the last can still use them
        if reason := why_damaged(kept, engine, by_content=by_content):
            self._discard(reason)
            return no_base(self.shards)
        return base_of(kept, self.shards, engine, by_content=by_content)

    def _discard(self, reason: str) -> None:
        """Do not use kept work, and say why."""
        self.kept = None
        if self.options.incremental:
            self._say(f"work kept by the last run is not used, and all shards are read: {reason}")

    def _say(self, message: str) -> None:
        """Give a notice, once."""
        if message not in self.said:
            self.said.add(message)
            self.notice(message)
