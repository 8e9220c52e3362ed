"""The three heaviest checks of an audit as SQL for DuckDB, over the same Parquet files.

What they assume, and count if it is not so (`unmatched`): every delivered range begins where a
sent one does, and messages are for all members. Then the direct dependencies of a message decide
causal order, since those of its causes were asked of them. Each check returns how many ranges
break it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

MEMBER = "run, member, incarnation"
SENDER = "sender, sender_incarnation"


def connect(folder: Path, threads: int) -> Any:
    """The tables of an export as views."""
    import duckdb

    found = duckdb.connect(config={"threads": threads})
    for table in ("deliver", "sent", "view_installed"):
        files = str(folder / table / "*.parquet").replace("'", "''")
        found.execute(f"create view {table} as select * from read_parquet('{files}')")
    return found


def virtual_synchrony(database: Any) -> dict[str, int]:
    """Members that go from a view to the same next one: a range that some of them delivered in it
    and some did not. Ranges are merged, and then swept with how many have delivered them."""
    (broken,) = database.execute(f"""
        with moved as (
            select {MEMBER}, view,
                lead(view) over (partition by {MEMBER} order by lseq) as next
            from view_installed),
        ways as (
            select run, view, next, count(*) as members from moved
            where next is not null group by all having count(*) > 1),
        had as (
            select d.run, d.view, m.next, d.member, d.incarnation,
                d.sender, d.sender_incarnation, d.first, d.last
            from deliver d
            join moved m on (d.run, d.member, d.incarnation, d.view)
                = (m.run, m.member, m.incarnation, m.view)
            where m.next is not null and d.service <> 'BASIC'),
        marked as (
            select *, first > 1 + coalesce(max(last) over (
                partition by run, view, next, {SENDER}, member, incarnation order by first
                rows between unbounded preceding and 1 preceding), -1) as opens
            from had),
        numbered as (
            select *, sum(opens::int) over (
                partition by run, view, next, {SENDER}, member, incarnation order by first
                rows unbounded preceding) as island
            from marked),
        islands as (
            select run, view, next, {SENDER}, min(first) as first, max(last) as last
            from numbered group by run, view, next, {SENDER}, member, incarnation, island),
        ends as (
            select run, view, next, {SENDER}, place, sum(step) as step from (
                select run, view, next, {SENDER}, first as place, 1 as step from islands
                union all
                select run, view, next, {SENDER}, last + 1, -1 from islands)
            group by all),
        depths as (
            select *, sum(step) over (
                partition by run, view, next, {SENDER} order by place
                rows unbounded preceding) as depth
            from ends)
        select count(*) from depths join ways using (run, view, next)
        where 0 < depth and depth < members
    """).fetchone()
    return {"broken": broken}


def total_order(database: Any) -> dict[str, int]:
    """Positions grow at each member without a hole, and of a view each message has one and each
    holds one."""
    database.execute("""
        create or replace temp view placed as
        select run, view, member, incarnation, lseq, sender, sender_incarnation, first, last, pos,
            pos + last - first as upto, first - pos as label
        from deliver where service in ('AGREED', 'SAFE')
    """)
    database.execute("""
        create or replace temp table strange as
        select * from (
            select run, view, pos, max(upto) over (
                partition by run, view, member, incarnation order by lseq
                rows between unbounded preceding and 1 preceding) as before
            from placed)
        where pos is null or pos <> 1 + coalesce(before, -1)
    """)
    database.execute("""
        create or replace temp table labels as
        with once as (
            select distinct run, view, sender, sender_incarnation, label, pos, upto from placed),
        marked as (
            select *, pos > 1 + coalesce(max(upto) over (
                partition by run, view, sender, sender_incarnation, label order by pos
                rows between unbounded preceding and 1 preceding), -2) as opens
            from once),
        numbered as (
            select *, sum(opens::int) over (
                partition by run, view, sender, sender_incarnation, label order by pos
                rows unbounded preceding) as island
            from marked)
        select run, view, sender, sender_incarnation, label, min(pos) as pos, max(upto) as upto
        from numbered group by run, view, sender, sender_incarnation, label, island
    """)
    clashes = 0
    for within, at, upto in (
        ("run, view", "pos", "upto"),
        ("run, view, sender, sender_incarnation", "pos + label", "upto + label"),
    ):
        (found,) = database.execute(f"""
            select count(*) from (
                select {at} as place, max({upto}) over (
                    partition by {within} order by {at}
                    rows between unbounded preceding and 1 preceding) as before
                from labels)
            where place <= before
        """).fetchone()
        clashes += found
    (strange,) = database.execute("""
        select count(*) from strange s
        where pos is null or pos <= before or exists (
            select * from labels l where (l.run, l.view) = (s.run, s.view)
            and l.pos < s.pos and l.upto > coalesce(s.before, -1))
    """).fetchone()
    database.execute("drop table labels; drop table strange")
    return {"broken": strange + clashes}


def causal(database: Any) -> dict[str, int]:
    """Before each delivery its member has delivered what the message depends on, unless that is
    not for this view. One running maximum a sender, all in one pass over each journal."""
    senders = database.execute(
        "select distinct member, incarnation from sent order by member, incarnation"
    ).fetchall()
    having = [
        f"sender = '{member}' and sender_incarnation = {incarnation}"
        for member, incarnation in senders
    ]
    highs = ",\n".join(
        f"max(last) filter ({who}) over before as h{i}" for i, who in enumerate(having)
    )
    found = [f"list_position(deps, '{member}.{incarnation}')" for member, incarnation in senders]
    needs = ",\n".join(f"coalesce(numbers[{at}], 0) as n{i}" for i, at in enumerate(found))
    late = "\nunion all\n".join(
        f"select {MEMBER}, lseq, view, '{member}' as cause, {incarnation} as cause_incarnation,"
        f" n{i} as number"
        f" from probes where n{i} > coalesce(h{i}, 0)"
        for i, (member, incarnation) in enumerate(senders)
    )
    (unmatched,) = database.execute("""
        select count(*) from deliver d anti join sent s
        on (d.run, d.sender, d.sender_incarnation, d.first)
            = (s.run, s.member, s.incarnation, s.first)
        where d.service <> 'BASIC'
    """).fetchone()
    (broken,) = database.execute(f"""
        with heights as (
            select run, member, incarnation, lseq, view, {SENDER}, first, service, {highs}
            from deliver where service <> 'BASIC'
            window before as (
                partition by {MEMBER} order by lseq
                rows between unbounded preceding and 1 preceding)),
        needed as (
            select run, member as sender, incarnation as sender_incarnation, first, {needs}
            from (
                select run, member, incarnation, first, dep_numbers as numbers,
                    list_transform(list_zip(dep_senders, dep_incarnations),
                        lambda d: d[1] || '.' || d[2]) as deps
                from sent where service <> 'BASIC' and len(dep_senders) > 0)),
        probes as (select * from heights join needed using (run, {SENDER}, first)),
        late as ({late})
        select count(*) from late l join deliver d
        on (d.run, d.member, d.incarnation, d.view, d.sender, d.sender_incarnation)
            = (l.run, l.member, l.incarnation, l.view, l.cause, l.cause_incarnation)
            and l.number between d.first and d.last
        where d.lseq > l.lseq
    """).fetchone()
    return {"broken": broken, "unmatched": unmatched}


CHECKS = {
    "virtual-synchrony": virtual_synchrony,
    "causal": causal,
    "running-prefix": total_order,
}
"""By the property that each judges."""
