"""What a group went through: who was in which view when, and why a member was removed.

asof        the last mark before a row, without a join
clocks      a member's own clock, and what the wall clock said
intervals   views and memberships, each from when to when
instants    an instant as a user writes it
lookup      runs, groups and members by name; what there is where a name is unknown
view_at     the view that a member had at an instant
fates       how a member's time in a view ended, by its own journal
removals    each removal with its evidence, at each member that made it
why         the removals of one member
telling     a removal told to people
"""
