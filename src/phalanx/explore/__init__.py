"""Model checking of small groups, on the product's own classes.

    frozen_member      a member whose clock stands still; its timers are named inputs
    fast_copy          fast copies of members
    canonical_form     the behaviour-relevant state of a member as plain values
    memoized_members   members by number, and the outcome of each input, computed once
    member_history     the events that applications saw, and the safety checks on them
    check_codes        the codes of the checks and the properties that they test
    process_state      local states of one process: member, history and units in flight
    state_space        states of the group: possible steps, with partial-order reduction
    end_checks         checks on a group in which nothing happens any more
    settle             from a quiet end to one common view
    search             breadth-first search; the shortest path to each violation
    trace_script       such a path as text, and back
    live_group         live members and the packets in flight between them
    journal_observer   journal rows of a live group, for the checkers and the audit
    story              a schedule of a live group as text, and its replay
    story_mutation     stories changed at random
    random_walk        one schedule drawn from a seed
    guided_walk        schedules in rounds, by policies that produce rare orders
    schedule_policy    the links on which packets arrive in a round, and their order
    disturbances       what else happens in a round, single events and patterns of them
    walk_branch        a walk that can be forked, and its distance to a violation
    walk_runner        guided walks on all cores

Only tests, the command line and campaigns import this package.
"""
