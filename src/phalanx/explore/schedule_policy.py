"""Schedule policies of guided walks: which links deliver in a round, and in which order.

deaf      members that receive nothing for a while, as behind a bad link;
          they suspect others together
mute      members from which nothing arrives
blocked   links on which nothing arrives for a while, a few of them or all but a few
order     fixed priorities of links, changed now and then (PCT); one receiver after the other;
          bursts of one link; or any link
victims   members to suspect next
"""

from __future__ import annotations

from random import Random

Link = tuple[int, int]
"""Receiver and sender."""
ORDERS = ("priorities", "receivers", "bursts", "any")


class Policy:
    """The policy of a round. The next round's is this one with a change, most of the time."""

    def __init__(self, rng: Random, n: int) -> None:
        self._rng = rng
        self._n = n
        self.links: list[Link] = [(p, q) for p in range(n) for q in range(n) if p != q]
        rng.shuffle(self.links)
        self.deaf: set[int] = set()
        self._mute: set[int] = set()
        self._blocked: set[Link] = set()
        self.victims: list[int] = []
        self._order = "any"
        self._hot: Link | None = None
        self._draw()

    def next(self) -> Policy:
        """The policy of a round that follows."""
        made = object.__new__(Policy)
        made.__dict__.update(self.__dict__)
        made.links, made.victims = self.links.copy(), self.victims.copy()
        made.deaf, made._mute, made._blocked = (
            set(self.deaf),
            set(self._mute),
            set(self._blocked),
        )
        made._hot = None
        made._change()
        return made

    def _draw(self) -> None:
        rng, n = self._rng, self._n
        order = list(range(n))
        rng.shuffle(order)
        self.deaf, self._mute, self._blocked = set(), set(), set()
        if rng.random() < 0.5:
            self.deaf = set(order[: rng.choice((1, 1, 2, 2, 2, 3, n // 2))])
        if rng.random() < 0.15:
            self._mute = {order[-1]}
        if rng.random() < 0.4:
            self._block(rng.choice((0.1, 0.2, 0.4)))
        elif rng.random() < 0.25:
            self._keep_few()
        self.victims = [p for p in order if p not in self.deaf] or order
        self._order = rng.choice(ORDERS)
        if self._order == "receivers":
            rng.shuffle(order)
            self.links.sort(key=lambda link: order[link[0]])

    def _block(self, share: float) -> None:
        self._blocked = {link for link in self.links if self._rng.random() < share}

    def _keep_few(self) -> None:
        """Only a few links are not blocked."""
        few = self._rng.sample(self.links, self._rng.choice((1, 2, 2, 3)))
        self._blocked = set(self.links).difference(few)

    def _change(self) -> None:
        rng, what = self._rng, self._rng.random()
        if what < 0.25:
            self._draw()
        elif what < 0.35:
            self._block(0.2)
        elif what < 0.4:
            self._keep_few()
        elif what < 0.55 and self.deaf:
            self.deaf.discard(rng.choice(sorted(self.deaf)))
        elif what < 0.65:
            self.deaf.add(rng.randrange(self._n))
        elif what < 0.75:
            rng.shuffle(self.links)
        if rng.random() < 0.4:
            rng.shuffle(self.victims)

    def is_open(self, link: Link) -> bool:
        p, q = link
        return p not in self.deaf and q not in self._mute and link not in self._blocked

    def choose(self, ready: list[Link]) -> Link:
        """On which of these links, in the order of `links`, the next packet arrives."""
        rng = self._rng
        match self._order:
            case "any":
                return rng.choice(ready)
            case "bursts":
                if self._hot is None or self._hot not in ready or rng.random() < 0.2:
                    self._hot = rng.choice(ready)
                return self._hot
            case order:
                link = ready[0]
                if rng.random() < (0.12 if order == "priorities" else 0.05):
                    self.demote(link)
                return link

    def demote(self, link: Link) -> None:
        """A link comes last from now on: a change point."""
        self.links.remove(link)
        self.links.append(link)

    def suspected(self, q: int) -> None:
        """Others come before this one next time."""
        self.victims = [p for p in self.victims if p != q] + [q]
