"""The exceptions of the package: mistakes and conditions that the caller can handle.

    PhalanxError
    ├── ConfigurationError      a setting that cannot work (also a ValueError)
    ├── FileError               a file that cannot be used (also a ValueError)
    │   ├── ScenarioError       a scenario file
    │   ├── EventFileError      a file of recorded events
    │   └── JournalError        a journal
    ├── NetworkError            the system refuses a socket as configured (also an OSError)
    ├── StateError              the state directory cannot be used (also an OSError)
    ├── NameInUse               another live process has this name in the group
    ├── IncarnationUsed         an earlier process had this name and incarnation
    ├── NotEverywhere           messages that some of their receivers may not have
    │   └── NotDelivered        messages that went to nobody
    ├── Forked                  a group that was joined before a fork, used in the child
    ├── AlreadyJoined           a join that is awaited or entered again (also a RuntimeError)
    ├── NotReceiving            events of a member that only sends (receive=False)
    ├── TimedOut                a wait that took too long (also a TimeoutError)
    ├── EngineFailed            a bug of Phalanx: this member is no longer in its group
    ├── PipelineError           Spark, or a location given to it, cannot be used
    ├── WorkerDied              a process that did part of the work ended early
    ├── ServiceError            a refused call of the membership service (service/calls)
    └── SubmissionError         a message that was not accepted; nothing was sent
        ├── MessageTooLarge
        ├── UnknownMember
        ├── NoReceiver
        ├── NotBytes            (also a TypeError)
        ├── InvalidSubmission   an invalid argument (also a ValueError)
        ├── OutboxFull
        ├── EventsUnread
        └── MemberClosed

Bugs of Phalanx are assertions. Invalid packets of peers are counted and dropped, never raised.
"""

from __future__ import annotations

from typing import Any

VALUE_SHOWN_MAX = 160
"""A message shows at most so many characters of a value that cannot work."""


class PhalanxError(Exception):
    """Base of all exceptions that this package raises on purpose. Can be pickled: simulations in
    other processes raise it here."""

    def __reduce__(self) -> tuple[object, ...]:
        return _revive, (type(self), str(self), self.__dict__)


def _revive(kind: type[PhalanxError], text: str, values: dict[str, object]) -> PhalanxError:
    error = kind.__new__(kind)
    error.args = (text,)
    error.__dict__.update(values)
    return error


class ConfigurationError(PhalanxError, ValueError):
    """A setting that cannot work. Found before anything starts."""

    def __init__(self, field: str, value: object, remedy: str) -> None:
        super().__init__(f"{field} = {value!r:.{VALUE_SHOWN_MAX}}: {remedy}")
        self.field = field
        self.value = value
        self.remedy = remedy


class FileError(PhalanxError, ValueError):
    """A file that cannot be used: names the file, the line where known, and the remedy."""

    def __init__(self, file: str, line: int | None, problem: str, remedy: str) -> None:
        place = f"{file}:{line}" if line is not None else file
        super().__init__(f"{place}: {problem}; {remedy}")
        self.file = file
        self.line = line
        self.problem = problem
        self.remedy = remedy


class ScenarioError(FileError):
    """A scenario that cannot be run."""


class EventFileError(FileError):
    """A file of events that cannot be read."""


class JournalError(FileError):
    """A file or folder that cannot be read as a journal."""


class PipelineError(PhalanxError):
    """Spark, or a location given to it, cannot be used: names it and the remedy."""

    def __init__(self, what: str, problem: str, remedy: str) -> None:
        super().__init__(f"{what}: {problem}; {remedy}")
        self.what = what
        self.problem = problem
        self.remedy = remedy


class NetworkError(PhalanxError, OSError):
    """The system refuses a socket as configured: names the field and the remedy."""

    def __init__(self, field: str, value: object, problem: str, remedy: str) -> None:
        super().__init__(f"{field} = {value!r}: {problem}; {remedy}")
        self.field = field
        self.value = value
        self.problem = problem
        self.remedy = remedy


class StateError(PhalanxError, OSError):
    """The state directory, or a file in it, cannot be used."""

    def __init__(self, path: str, problem: str, remedy: str) -> None:
        super().__init__(f"state = {path!r}: {problem}; {remedy}")
        self.path = path
        self.problem = problem
        self.remedy = remedy


class NameInUse(PhalanxError):
    """Another live process has this name in the group. This process is not in the group."""

    def __init__(self, name: str, group: str, where: str) -> None:
        super().__init__(
            f"name = {name!r}: another live process {where} has it in group {group!r}; "
            "choose another name, or stop that process"
        )
        self.name = name
        self.group = group
        self.where = where


class IncarnationUsed(PhalanxError):
    """An earlier process had this name and incarnation in the group, so its members would ignore
    this process. It is not in the group."""

    def __init__(self, name: str, group: str, incarnation: int) -> None:
        super().__init__(
            f"name = {name!r}: an earlier process had it with incarnation {incarnation} in group "
            f"{group!r} (was a state directory lost, or the clock set back?); join again, which "
            "takes a later incarnation"
        )
        self.name = name
        self.group = group
        self.incarnation = incarnation


class NotEverywhere(PhalanxError):
    """Own messages that some intended members may not have. `missing` has these members (as
    `MemberId`), `outcome` (an `Outcome`) the members that have the messages."""

    def __init__(self, first: int, last: int, outcome: Any) -> None:
        have = ", ".join(map(str, outcome.members)) or "nobody"
        lack = ", ".join(map(str, outcome.missing))
        super().__init__(
            f"messages {first} to {last}: {lack} may not have them; known to have them: {have}"
        )
        self.first = first
        self.last = last
        self.outcome = outcome
        self.missing: tuple[Any, ...] = outcome.missing


class NotDelivered(NotEverywhere):
    """Own messages that go to nobody: all their receivers have left the view."""

    def __init__(self, first: int, last: int, members: tuple[Any, ...] = ()) -> None:
        gone = ", ".join(map(str, members)) or "all receivers"
        PhalanxError.__init__(
            self, f"messages {first} to {last} go to nobody: {gone} left the view"
        )
        self.first = first
        self.last = last
        self.outcome = None
        self.missing = members


class Forked(PhalanxError):
    """A group that was joined before a fork, used in the child."""

    def __init__(self, group: str) -> None:
        super().__init__(f"group {group!r} was joined before a fork: join again in the child")
        self.group = group


class AlreadyJoined(PhalanxError, RuntimeError):
    """One call of `phalanx.join`, awaited or entered more than once. Nothing was joined."""

    def __init__(self, group: str) -> None:
        super().__init__(
            f"join({group!r}) was awaited or entered before: call phalanx.join again for another "
            "member, or enter the group that it gave"
        )
        self.group = group


class NotReceiving(PhalanxError):
    """The events of a member that only sends were read."""

    def __init__(self, group: str) -> None:
        super().__init__(
            f"group {group!r} was joined with receive=False: it keeps no events; "
            "use view, wait_for and receipts, or join with receive=True"
        )
        self.group = group


class TimedOut(PhalanxError, TimeoutError):
    """A wait took too long. Nothing was undone."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what}: not within {seconds:g} s")
        self.what = what
        self.seconds = seconds


class EngineFailed(PhalanxError):
    """A bug of Phalanx: this member is no longer in its group. The others treat it as crashed."""

    def __init__(self, group: str, problem: str) -> None:
        super().__init__(f"group {group!r}: {problem}; please report it, and join again")
        self.group = group
        self.problem = problem


class WorkerDied(PhalanxError):
    """A process that did part of the work ended before it was done."""

    def __init__(self) -> None:
        super().__init__(
            "a worker process died (was it killed, or was memory short?); "
            "try again with fewer --jobs, or with --jobs 1"
        )


class SubmissionError(PhalanxError):
    """A submission that was refused: none of its messages was or will be sent."""


class MessageTooLarge(SubmissionError):
    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"message of {size} bytes is over message_bytes_max = {limit}: "
            "split it, or raise the limit at this member"
        )
        self.size = size
        self.limit = limit


class UnknownMember(SubmissionError):
    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(f"to = {name!r} is not in the view; its members: {', '.join(known)}")
        self.name = name
        self.known = known


class NoReceiver(SubmissionError):
    def __init__(self) -> None:
        super().__init__("to = (): name at least one member, or None for the whole view")


class NotBytes(SubmissionError, TypeError):
    def __init__(self, kind: str) -> None:
        super().__init__(f"a message body is {kind}: give bytes, for example text.encode()")
        self.kind = kind


class InvalidSubmission(SubmissionError, ValueError):
    """An invalid argument of a call that sends: names it and the remedy."""

    def __init__(self, field: str, value: object, remedy: str) -> None:
        super().__init__(f"{field} = {value!r:.80}: {remedy}")
        self.field = field
        self.value = value
        self.remedy = remedy


class OutboxFull(SubmissionError):
    def __init__(self, waiting: int, limit: int) -> None:
        super().__init__(
            f"{waiting} bytes wait to be sent, outbox_bytes_max = {limit}: "
            "wait until the window opens, then submit again"
        )
        self.waiting = waiting
        self.limit = limit


class EventsUnread(SubmissionError):
    def __init__(self, waiting: int, limit: int) -> None:
        super().__init__(
            f"{waiting} bytes of events wait to be read, twice buffer_bytes_max = {limit}: "
            "read the group's events, or join with receive=False to read none, "
            "or with slow = 'lose'"
        )
        self.waiting = waiting
        self.limit = limit


class MemberClosed(SubmissionError):
    def __init__(self, member: str) -> None:
        super().__init__(f"{member} is closed: it has left its group or is leaving; join again")
        self.member = member
