"""One server's membership in one set: S3's Initiate, Ack, Commit, repaired (docs/service/rules.md).

    a change is proposed -> Initiate to all -> Ack of all -> Commit -> applied by all -> stable

Rules: the first Commit on a base wins, whatever else was acknowledged. A decision needs an answer
of every member; who does not answer is isolated, and left out by the same commit (a fork). A
message on an older base is answered with the commits that its sender lacks, one on a newer base
with a question for them; two ids of one number that differ isolate each other. After a
coordinator's failure the members elect another one (`coordinator_election`).
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from phalanx.service import effects, inputs, messages
from phalanx.service.change_queue import ChangeQueue
from phalanx.service.commit_chain import CommitChain, left_out
from phalanx.service.coordination import Coordination, decided, goes_before, joiners, key
from phalanx.service.coordinator_election import CoordinatorElection, Status
from phalanx.service.effects import LogEffect, Send, SetRecord
from phalanx.service.entries import SetChange
from phalanx.service.isolation import Isolation, renewal
from phalanx.service.log_messages import LogMessages
from phalanx.service.log_timers import LogTimers
from phalanx.service.messages import Commit, LogMessage
from phalanx.service.promises import AckedChange
from phalanx.service.service_times import ServiceTimes
from phalanx.service.set_monitor import SetMonitor, successor
from phalanx.service.values import NOWHERE, Gid, SetState, Vid

Effects = list[LogEffect]


class SetLog:
    """See the module. Every attribute is an immutable value or is replaced as a whole, so that a
    shallow copy is a copy."""

    def __init__(self, me: Gid, record: SetRecord, times: ServiceTimes, now: int) -> None:
        """A member that comes back with its record, or is installed with one (rule C6)."""
        self.me = me
        self.set = record.state.set
        self._times = times
        self._chain = CommitChain(record.state, record.stable, record.commits)
        self._promises = record.promises
        self._work: Coordination | None = None
        self._election: CoordinatorElection | None = None
        self._queue = ChangeQueue()
        self._isolation = Isolation(record.promises.apart or ())
        self._monitor = SetMonitor(frozenset({me}))
        self._waiting: tuple[tuple[Gid, messages.OnBase], ...] = ()
        self._timers = LogTimers().armed("monitor", now + times.ack_ns)
        if record.promises.acked is not None:
            self._timers = self._timers.armed("commit", now + times.commit_wait_ns)

    # -------------------------------------------------------------- what the owner may read

    @property
    def state(self) -> SetState:
        """The last applied state."""
        return self._chain.state

    @property
    def stable(self) -> SetState | None:
        """The last state known to be applied by all of its view."""
        return self._chain.stable

    @property
    def is_member(self) -> bool:
        return self.me in self.state.view

    def welcome(self, server: Gid) -> Effects:
        """The last state again, for a joiner to which the Commit that added it was lost."""
        last = self._chain.commits[-1:] if server in self._chain.view else ()
        return [Send(server, replace(commit, state=self._chain.state)) for commit in last]

    def missing(self, server: Gid, vid: Vid) -> Effects:
        """What a server at an earlier state of this chain lacks: it is not to be united again."""
        commits = self._chain.next_for(vid)
        return [Send(server, self._say.missing(commits))] if commits else []

    @property
    def isolated(self) -> tuple[Gid, ...]:
        """Members of the view that this one does not hear, or that have gone another way."""
        return self._isolation.servers

    @property
    def is_idle(self) -> bool:
        """No change is known to be under way, and nobody is to be left out."""
        mine = self._work or self._election or self._queue.changes
        return not (mine or self._promises.acked or self.isolated)

    def record(self) -> SetRecord:
        return SetRecord(self.state, self.stable, self._chain.commits, self._promises)

    def deadline(self) -> int:
        asked = (question.deadline for question in self._monitor.questions)
        return min((self._timers.deadline(), *asked))

    # -------------------------------------------------------------- inputs

    def step(self, now: int, given: inputs.LogInput) -> Effects:
        """Carry out one input."""
        match given:
            case inputs.MessageReceived(sender, message):
                return self._received(now, sender, message)
            case inputs.ProposeChange(change):
                if not self.is_member:
                    return [effects.ChangeDropped(change.id)]
                self._queue = self._queue.with_change(change)
                return self._start(now)
            case inputs.ProposeUnion(change, other, united):
                if not self.is_member or not self.is_idle or self._promises.apart is not None:
                    return [effects.ChangeDropped(change.id), *self._renew(now)]
                to = tuple(m for m in united.view if m != self.me)
                return self._coordinate(now, Coordination(change, to, other=other, united=united))
            case inputs.ConfirmAnswers(token):
                return self._confirm(now, token)
            case inputs.ServerSuspected(server):
                return self._isolate(now, (server,))
            case inputs.TimerDue():
                return self._due(now)
            case _:
                assert_never(given)

    def _received(self, now: int, sender: Gid, message: object) -> Effects:
        if not isinstance(message, LogMessage):
            return [effects.Ignored("not a message of the log", sender)]
        if not self.is_member:
            return []
        if self.me in message.isolated and sender in self._chain.view:
            return self._isolate(now, (sender,))
        if sender in self.isolated:
            return [effects.Ignored("isolated", sender)]
        self._monitor = self._monitor.heard(sender)
        match message:
            case Commit():
                return self._commits(now, sender, (message,))
            case messages.MissingCommits(commits=commits):
                return self._commits(now, sender, commits)
            case messages.Ack():
                return self._ack(now, sender, message)
            case _:
                pass
        base = message.base
        if isinstance(message, messages.Initiate) and message.other == self._chain.vid:
            base = self._chain.vid
        match self._chain.relation(base):
            case "behind":
                return self.missing(sender, base)
            case "ahead" if isinstance(message, messages.Initiate | messages.CoordinatorFailed):
                others = tuple(w for w in self._waiting if w[0] != sender)
                self._waiting = (*others, (sender, message))  # until its base is mine (rule M5)
                return []
            case "ahead":
                return [Send(sender, self._say.question())]
            case "diverged":
                return self._isolate(now, (sender,))
            case "same":
                out = self._on_my_base(now, sender, message)
                return [*out, *self._isolate(now, message.isolated)]

    def _on_my_base(self, now: int, sender: Gid, message: messages.OnBase) -> Effects:
        match message:
            case messages.Initiate():
                return self._initiate(now, sender, message)
            case messages.CoordinatorFailed():
                return self._coordinator_failed(now, sender, message)
            case messages.Monitor(token=token):
                out = self._is_at(sender, message.stable)
                return [*out, Send(sender, self._say.reply(token))]
            case messages.MonitorReply(token=number):
                out = self._is_at(sender, message.stable)
                self._monitor, done = self._monitor.answered(sender, number, self._chain.view)
                return [*out, *(effects.AnswersConfirmed(token, self._chain.vid) for token in done)]
            case messages.StableUpTo():
                return self._is_at(sender, message.vid)
            case _:
                assert_never(message)

    # -------------------------------------------------------------- a change as its coordinator

    def _start(self, now: int) -> Effects:
        """Begin the change that goes first, unless one that goes before it is under way."""
        if self._work is not None or self._election is not None or not self.is_member:
            return []
        view, acked = self._chain.view, self._promises.acked
        covered = self._promises.leave_out(self.isolated)
        removal = None if covered else self._isolation.removal(self.me)
        if (change := self._queue.first(self.me, view, removal)) is None:
            return []
        if acked is not None and acked.coordinator not in self.isolated:
            theirs = key(acked.change, acked.coordinator, view)
            if acked.other is not None or not goes_before(key(change, self.me, view), theirs):
                return []  # nobody that proposes a union hears of a change that goes before it
        return self._begin(now, change)

    def _begin(self, now: int, change: SetChange) -> Effects:
        to = (*self._others(), *joiners(change, self._chain.view))
        return self._coordinate(now, Coordination(change, to))

    def _coordinate(self, now: int, work: Coordination) -> Effects:
        """A round of questions about a change (`promises`)."""
        acked = AckedChange(work.change, self.me, work.other)
        self._promises = self._promises.begun(acked, self.isolated)
        self._work = work = work.in_round(self._promises.round, self.isolated)
        self._timers = self._timers.without("commit").armed("ack", now + self._times.ack_ns)
        return [effects.Persist(self.record()), *self._say.initiates(work), *self._try_commit(now)]

    def _ack(self, now: int, sender: Gid, message: messages.Ack) -> Effects:
        if message.status == "applied":
            return self._is_at(sender, NOWHERE) if message.base == self._chain.vid else []
        work = self._work
        if message.base == self._chain.vid and (out := self._isolate(now, message.isolated)):
            return out  # it is asked again, in another round
        answered = work.answered(sender, message, self._chain.vid) if work is not None else None
        if answered is None:
            return [effects.Ignored("answer to no question", sender)]
        self._work = answered
        return self._try_commit(now)

    def _try_commit(self, now: int) -> Effects:
        work = self._work
        if work is None or work.missing(self.isolated):
            return []
        joined = joiners(work.change, self._chain.view)
        return self._apply(now, decided(work, self.state, self.isolated), self.me, joined)

    def _answers_late(self, now: int, work: Coordination) -> Effects:
        """The time for answers is over: ask again, or go on without the silent members."""
        self._work = work = work.next_try(self.isolated)
        self._timers = self._timers.armed("ack", now + self._times.ack_ns)
        if work.tries <= self._times.ack_retries:
            return [*self._say.initiates(work)]
        silent = work.silent(self.isolated)
        if work.united is not None:
            return [*self._abandon_union(work), *self._isolate(now, silent)]
        kept = tuple(t for t in work.targets if t in self._chain.view or t not in silent)
        self._work = replace(work, targets=kept)
        return self._isolate(now, silent) or self._try_commit(now)

    def _abandon_union(self, work: Coordination) -> Effects:
        self._work, self._promises = None, self._promises.expecting(None)
        self._timers = self._timers.without("ack")
        return [effects.ChangeDropped(work.change.id), effects.Persist(self.record())]

    # -------------------------------------------------------------- a change of another member

    def _initiate(self, now: int, sender: Gid, message: messages.Initiate) -> Effects:
        view, change = self._chain.view, message.change
        if sender not in view and message.other is None:
            return [effects.Ignored("coordinator is not in the view", sender)]
        if self._election is not None:
            return [effects.Ignored("in an election", sender)]
        isolated = (*self.isolated, *message.isolated)
        if not self._promises.may_acknowledge(message, sender, self.me, view, isolated):
            return [Send(sender, self._say.answer(message, "busy")), *self._renew(now)]
        known, work, self._work = self._promises, self._work, None
        out: Effects = self._set_apart(message.isolated)
        if work is not None and work.united is not None:
            out.append(effects.ChangeDropped(work.change.id))
        self._timers = self._timers.without("ack").armed("commit", now + self._times.commit_wait_ns)
        acked = AckedChange(change, sender, message.other)
        self._promises = known.acknowledged(acked, self.isolated)
        out += [effects.Persist(self.record())] if self._promises != known else []
        return [*out, Send(sender, self._say.answer(message, "acked"))]

    def _renew(self, now: int) -> Effects:
        """A change acknowledged here stops unions: if it came to nothing, leave this base."""
        if self._promises.apart is None or not self.is_idle:
            return []
        self._queue = self._queue.with_change(renewal(self.me))
        return self._start(now)

    def _commits(self, now: int, sender: Gid, commits: tuple[Commit, ...]) -> Effects:
        out, one = Effects(), len(commits) == 1  # of several too early ones none is asked about
        for commit in commits:
            if self.is_member and (one or self._chain.place(commit) != "later"):
                out += self._commit(now, sender, commit)
        return out

    def _commit(self, now: int, sender: Gid, commit: Commit) -> Effects:
        """The first commit on a base wins (rule M2), unless it leaves this member out."""
        match self._chain.place(commit):
            case "next" if self.me in left_out((self.me,), commit):
                return self._isolate(now, commit.members)
            case "next" if self._promises.take(commit):
                return self._apply(now, commit, sender, ())
            case "last":
                return [Send(sender, self._say.applied(commit.id))]
            case "later":
                return [Send(sender, self._say.question())]
            case "next" | "rival":
                return self._isolate(now, (sender,))
            case "earlier" | "unknown":
                return []

    def _apply(self, now: int, commit: Commit, source: Gid, joined: tuple[Gid, ...]) -> Effects:
        """A new last state: what belonged to the one before goes."""
        chain = self._chain.followed_by(commit)
        if chain is None:
            return [effects.Ignored("commit whose id is not its own", source)]
        self._chain, view, work = chain, chain.view, self._work
        dropped = [work.change.id] if work is not None and work.united is not None else []
        self._work = self._election = None
        self._promises = self._promises.on_next_state()
        self._isolation = self._isolation.within(view)
        self._queue, outdated = self._queue.after(commit.id, view)
        dropped += outdated
        unanswered = self._monitor.questions
        self._monitor = SetMonitor(frozenset({self.me, source}))
        self._timers = LogTimers().armed("monitor", now + self._times.ack_ns)
        out: Effects = [effects.Persist(self.record())]
        if source == self.me:
            whole = replace(commit, state=self.state)
            out += [Send(to, whole if to in joined else commit) for to in view if to != self.me]
        else:
            out.append(Send(source, self._say.applied(commit.id)))
        out.append(effects.StateApplied(self.state, commit))
        out += [effects.ChangeDropped(id_) for id_ in dropped]
        out += [effects.AnswersMissing(question.token) for question in unanswered]
        if not self.is_member:
            self._timers = LogTimers()
            return [*out, effects.LeftSet(self.set)]
        waiting, self._waiting = self._waiting, ()
        out += self._note_stability()
        for sender, message in waiting:
            out += self._received(now, sender, message)
        return [*out, *self._start(now)]

    # -------------------------------------------------------------- who is where

    @property
    def _say(self) -> LogMessages:
        stable = self._chain.stable
        known = stable.vid if stable else NOWHERE
        return LogMessages(self.set, self._chain.vid, known, self.isolated)

    def _is_at(self, sender: Gid, stable: Vid) -> Effects:
        """The sender has applied my last state, and knows that `stable` is stable."""
        known = self._chain.view if stable == self._chain.vid else (sender,)
        self._monitor = self._monitor.with_applied(known)
        return self._note_stability()

    def _note_stability(self) -> Effects:
        """Stable once all of the view have applied it (rule C4)."""
        chain = self._chain
        if chain.is_stable or not self._monitor.applied_by_all(chain.view):
            return []
        self._chain = replace(chain, stable=chain.state)
        mine = chain.commits and chain.commits[-1].id.origin == self.me
        to_all = self._others() if mine else ()
        told = [Send(to, self._say.stable_up_to(chain.vid)) for to in to_all]
        return [effects.Persist(self.record()), *told, effects.StateStable(chain.state)]

    def _others(self) -> tuple[Gid, ...]:
        return tuple(m for m in self._chain.view if m != self.me and m not in self.isolated)

    def _isolate(self, now: int, servers: tuple[Gid, ...]) -> Effects:
        """Do not wait for these members any more (rule C3)."""
        before = self.isolated
        out = self._set_apart(servers)
        if self.isolated == before:
            return []
        work = self._work
        if work is not None:
            out += self._abandon_union(work) if work.united else self._coordinate(now, work)
        return [*out, *self._try_elect(now), *self._start(now)]

    def _set_apart(self, servers: tuple[Gid, ...]) -> Effects:
        """Read nothing of these members any more."""
        new = self._isolation.new_among(servers, self.me, self._chain.view)
        if not new:
            return []
        self._isolation = self._isolation.with_servers(new)
        self._monitor, tokens = self._monitor.without_questions()
        return [effects.AnswersMissing(token) for token in tokens]

    def _confirm(self, now: int, token: int) -> Effects:
        """Ask everybody for an answer at this state (rule C5)."""
        if not self.is_member or self.isolated:
            return [effects.AnswersMissing(token)]
        if self._chain.view == (self.me,):
            return [effects.AnswersConfirmed(token, self._chain.vid)]
        wait = self._times.reply_ns * (self._times.reply_retries + 1)
        self._monitor, number = self._monitor.with_question(self.me, token, now + wait)
        return [Send(to, self._say.question(number)) for to in self._others()]

    # -------------------------------------------------------------- election of a coordinator

    def _wait_for_commit_ended(self, now: int) -> Effects:
        acked = self._promises.acked
        if acked is None or acked.coordinator == self.me:
            self._promises = self._promises.expecting(None)  # its round is over
            return self._start(now)
        if acked.other is not None:  # nothing depends on a union: each side goes on as it was
            self._promises = self._promises.expecting(None)
            self._queue = self._queue.with_change(renewal(self.me))
            return [effects.Persist(self.record()), *self._start(now)]
        return self._elect(now, acked.change, acked.coordinator)

    def _elect(self, now: int, change: SetChange, failed: Gid) -> Effects:
        """Treat the coordinator as failed, and report to all (rule M7)."""
        acked = self._promises.acked
        knows = acked is not None and acked.change.id == change.id
        self._work, self._promises = None, self._promises.expecting(None)
        timers = self._timers.without("ack", "commit")
        self._timers = timers.armed("election", now + self._times.ack_ns)
        status: Status = "acked" if knows else "unaware"
        self._election = run = CoordinatorElection(change, failed, status, frozenset({self.me}))
        self._isolation = self._isolation.with_coordinator(failed)
        report = [Send(to, self._say.report(run)) for to in self._others() if to != failed]
        return [*report, *self._isolate(now, (failed,)), *self._try_elect(now)]

    def _coordinator_failed(
        self, now: int, sender: Gid, message: messages.CoordinatorFailed
    ) -> Effects:
        if message.failed == self.me:
            return self._isolate(now, (sender,))
        acked, change = self._promises.acked, message.change
        over = acked is not None and acked.change.id == change.id
        if self._election is None and over and message.failed in self.isolated:
            return self._report_to(sender, message)
        out: Effects = []
        if self._election is None:
            out += self._elect(now, change, message.failed)
        run = self._election
        if run is None or run.change.id != change.id:
            return [*out, *self._report_to(sender, message)]
        self._election = replace(run, answered=run.answered | {sender})
        return [*out, *self._try_elect(now)]

    def _report_to(self, sender: Gid, message: messages.CoordinatorFailed) -> Effects:
        """This member is in another election, or done with this one: only the sender waits."""
        if message.reply or sender in self.isolated:
            return []
        return [Send(sender, self._say.reply_to(message))]

    def _try_elect(self, now: int) -> Effects:
        """All who are expected have reported: the most senior one coordinates."""
        run, view = self._election, self._chain.view
        if run is None or run.missing(view, self.isolated):
            return []
        self._election = None
        self._timers = self._timers.without("election")
        winner = run.winner(view, self.isolated)
        if winner == self.me:
            return self._elected(now, run.change)
        self._promises = self._promises.expecting(AckedChange(run.change, winner))
        self._timers = self._timers.armed("commit", now + self._times.commit_wait_ns)
        return [effects.Persist(self.record())]

    def _elected(self, now: int, change: SetChange) -> Effects:
        """Ask everybody again, in three phases."""
        self._queue = self._queue.with_change(change)
        return self._begin(now, change)

    def _election_late(self, now: int, run: CoordinatorElection) -> Effects:
        missing = run.missing(self._chain.view, self.isolated)
        self._election = replace(run, tries=run.tries + 1)
        self._timers = self._timers.armed("election", now + self._times.ack_ns)
        if run.tries >= self._times.ack_retries:
            return self._isolate(now, missing)
        return [Send(to, self._say.report(run)) for to in missing]

    # -------------------------------------------------------------- time

    def _due(self, now: int) -> Effects:
        out: Effects = []
        self._monitor, late = self._monitor.expired(now)
        out += [effects.AnswersMissing(token) for token in late]
        for name in self._timers.due(now):
            if name not in self._timers.due(now):  # another one has ended what it was for
                continue
            self._timers = self._timers.without(name)
            match name:
                case "ack" if self._work is not None:
                    out += self._answers_late(now, self._work)
                case "commit":
                    out += self._wait_for_commit_ended(now)
                case "election" if self._election is not None:
                    out += self._election_late(now, self._election)
                case "monitor":
                    out += self._watch(now)
        return out

    def _watch(self, now: int) -> Effects:
        """Ask the successor, or all while the last state is not stable (rules M1, M11)."""
        times, silent = self._times, self._monitor.silent(self._times.reply_retries)
        heard = tuple(m for m in self._others() if m not in silent)
        everybody = not self._chain.is_stable or bool(self._monitor.questions)
        targets = heard if everybody else successor(self.me, self._chain.view, heard)
        waits = times.reply_ns if self._monitor.unanswered else times.monitor_ns
        self._timers = self._timers.armed("monitor", now + waits)
        self._monitor = self._monitor.asked(targets)
        asked = [Send(to, self._say.question()) for to in targets]
        alone = self._note_stability() if not self._others() else []
        return [*alone, *asked, *self._isolate(now, silent)]
