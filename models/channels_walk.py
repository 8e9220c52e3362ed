"""Random walks of the membership protocol (`membership3.py`) over channels that break (S2).

    python models/channels_walk.py 2000 [seed]     walks; exits with 1 if one violates a property
    python models/channels_walk.py mutants 500     the first walk that catches each broken rule

Between any two members there is a channel in each direction that keeps the order and loses nothing
until it breaks; then it loses an end of what was under way. A frame goes into the channel to every
other member when it is sent; what it follows is fetched with it. A member that is connected again
gets the sender's frames that it lacks, and members now and then forward a frame of another that a
third one lacks. Members are suspected rightly and wrongly, crash, and send messages meanwhile; then
frames flow within groups and everybody must reach one view. The properties are those of
`membership3.py`. Roles are not in it.
"""

import random
import sys
from collections import Counter

from membership3 import DATA, Bad, World, settle


class Channels:
    """The channels of all pairs, and what is under way in them."""

    def __init__(self, w, rng):
        self.w, self.rng, self.sent, self.count = w, rng, 0, Counter()
        names = list(w.m)
        self.queue = {(p, q): [] for p in names for q in names if p != q}
        self.up = dict.fromkeys(self.queue, True)

    def send_new(self):
        """Put what was sent since the last call into the channels of its sender."""
        for x in range(self.sent, len(self.w.frames)):
            for (p, q), under_way in self.queue.items():
                if p == self.w.frames[x][0] and self.up[p, q]:
                    under_way.append(x)
        self.sent = len(self.w.frames)

    def deliver(self):
        busy = [pair for pair, frames in self.queue.items() if frames]
        if not busy:
            return
        p, q = self.rng.choice(busy)
        x = self.queue[p, q].pop(0)
        if not self.w.m[q].dead and not self.w.m[q].have >> x & 1:
            self.w.enter(self.w.m[q], x, self.w.frames[x][0] == p)
            self.count["delivered"] += 1

    def break_one(self, both):
        p, q = self.rng.choice(list(self.up))
        for pair in ((p, q), (q, p))[: 2 if both else 1]:
            if self.up[pair]:
                self.up[pair] = False
                self.lose_end(pair)
        self.count["both ways" if both else "one way"] += 1

    def lose_end(self, pair):
        under_way = self.queue[pair]
        del under_way[self.rng.randint(0, len(under_way)) :]

    def connect_one(self):
        down = [pair for pair, up in self.up.items() if not up]
        if down:
            p, q = self.rng.choice(down)
            self.up[p, q] = True
            self.repeat(p, q, lambda sender: sender == p)
            self.count["reconnect"] += 1

    def forward(self):
        p, q = self.rng.choice([pair for pair, up in self.up.items() if up] or [(None, None)])
        if p is not None and not self.w.m[p].dead:
            self.count["forwarded"] += self.repeat(p, q, lambda sender: sender != p)

    def repeat(self, p, q, wanted):
        lacks = self.w.m[p].have & ~self.w.m[q].have
        found = [
            x
            for x, frame in enumerate(self.w.frames)
            if lacks >> x & 1 and wanted(frame[0]) and x not in self.queue[p, q]
        ]
        self.queue[p, q] += found
        return len(found)

    def crash(self, p):
        self.w.m[p].dead = True
        self.count["crash"] += 1
        for pair in self.queue:
            if pair[0] == p:
                self.lose_end(pair)


def walk(seed, mutant=""):
    """One walk; what happened, counted."""
    rng = random.Random(seed)
    n = rng.choice((3, 4, 4, 5))
    k = rng.choice((n, n, 1, 2))
    names = list(range(n))
    w = World([names[i : i + k] for i in range(0, n, k)], True, mutant)
    net = Channels(w, rng)
    false, crashes, sends = rng.randint(0, 4), rng.choice((0, 0, 1, 1, 2)), rng.randint(0, 8)
    for _ in range(rng.randint(20, 60 * n)):
        net.send_new()
        alive = [p for p in names if not w.m[p].dead]
        roll = rng.random()
        if roll < 0.03:
            net.break_one(both=rng.random() < 0.5)
        elif roll < 0.06:
            net.connect_one()
        elif roll < 0.12:
            net.forward()
        elif roll < 0.15 and false:
            false -= 1
            w.suspect(w.m[rng.choice(alive)], rng.choice(names))
            net.count["suspicion"] += 1
        elif roll < 0.16 and crashes and len(alive) > 1:
            crashes -= 1
            net.crash(rng.choice(alive))
        elif roll < 0.2 and sends:
            sends -= 1
            sender = w.m[rng.choice(alive)]
            net.count["sent while changing"] += sender.phase
            w.say(sender, DATA)
        else:
            net.deliver()
    alive = [p for p in names if not w.m[p].dead]
    cut = rng.randint(0, len(alive)) if rng.random() < 0.4 else 0
    settle(w, rng, [frozenset(g) for g in (alive[:cut], alive[cut:]) if g])
    for p in alive:
        member = w.m[p]
        mine = sum(1 << x for x, f in enumerate(w.frames) if f[0] == p and f[3] == DATA)
        if mine & ~(member.did | w.eligible(member.base, member.ok & member.have)):
            raise Bad("self-delivery")
    net.count["installs"] += w.installs
    return net.count


def main(argv):
    if argv[:1] == ["mutants"]:
        for mutant in ("old", "barred", "r3any", "last", "early", "overlap"):
            print(f"{mutant:16} {caught(mutant, int(argv[1]) if len(argv) > 1 else 500)}")
        return 0
    runs, first = int(argv[0]) if argv else 1000, int(argv[1]) if len(argv) > 1 else 0
    total, violated = Counter(), 0
    for seed in range(first, first + runs):
        try:
            total += walk(seed)
        except Bad as bad:
            violated += 1
            print("seed", seed, bad, flush=True)
    print(runs, "walks from seed", first, "violations", violated, dict(sorted(total.items())))
    return 1 if violated else 0


def caught(mutant, runs):
    for seed in range(runs):
        try:
            walk(seed, mutant)
        except Bad as bad:
            return f"caught in walk {seed + 1}: {bad}"
    return "not caught"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
