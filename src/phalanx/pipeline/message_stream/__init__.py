"""The agreed and safe messages of a group, exactly once and in order, from journals of its members.

- `member_log`: what one journal says about the order: views, and ranges of messages in each;
- `order_comparison`: where the orders of two journals contradict each other;
- `group_merge`: follows one journal after the other and decides what may be yielded;
- `span_reader`: the messages of what was decided, with their bodies;
- `reader`: `spark.readStream.format("phalanx").option("table", "messages")`.

All but the last work without Spark.
"""
