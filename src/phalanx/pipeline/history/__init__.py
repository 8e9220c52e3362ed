"""The history of a group: who was in which view when, and why a member was removed.

asof_join        the last mark at or before a row, without a range join
clocks           a member's own clock, and the wall clock
intervals        views and memberships as intervals
instant          an instant as a user writes it
lookup           runs, groups and members by name
view_at          the view of a member at an instant
removal_outcome  how a member's time in a view ended, by its own journal
removals         each removal with its evidence, at each member that made it
why              the removals of one member
render           a removal as lines for people, and as JSON
"""
