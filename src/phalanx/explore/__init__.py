"""Every behaviour of a small group, on the product's own classes.

    member     a member whose time stands still: its timers are named inputs
    copies     copies of members, fast
    normal     what of a member matters, as plain values: two that agree here behave alike
    actors     members by number, and what each does when it is given something, computed once
    histories  what members have seen, and what is wrong with it
    seats      an actor, its history, and what is on its way to it
    world      all seats: what can happen next, with and without reduction
    settling   from a quiet end to one common view
    search     breadth first through all of it; the shortest way to each violation
    paths      such a way as lines of text, and back
    crowd      live members and what is on its way between them
    stories    what such members did, written down, and done again
    walks      one way through what can happen, drawn from a seed
    guided     ... in rounds, by policies that bring rare schedules about
    policy     who hears whom in a round, and in which order
    branch     a walk that can be forked, and how near it is to a violation
    edits      stories changed at random
    campaign   guided walks on all cores

Only tests, the command line and campaigns import this package.
"""
