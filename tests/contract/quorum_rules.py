"""Where quorum queues do otherwise than the suite asks of classic ones, as RabbitMQ's do, and why.

What holds instead is tested in tests/unit/quorum.
"""

_AHEAD = "a quorum queue hands out again what came back before everything else, in the order of its return"
_ASSIGNED = "the group assigns messages by prefetch alone: it does not know whose socket is full"
_DECLARED = "a quorum queue is never deleted with its consumers, so it cannot be declared so"
_ANYWHERE = "in a quorum queue a message expires when its time has come, wherever it stands"
_PRIORITIES = "a quorum queue always has its 32 priorities, and 4 is the default one"

QUORUM_RULES: dict[str, str] = {
    "test_parts_of_a_slice_are_settled_in_any_order_each_its_own_way": _AHEAD,
    "test_the_next_in_line_takes_over_when_the_active_consumer_leaves": _AHEAD,
    "test_any_sequence_of_steps_ends_as_it_does_for_a_list": _AHEAD,
    "test_a_queue_does_what_the_list_does": _AHEAD,
    "test_no_message_is_lost_or_doubled_by_a_limit": _AHEAD,
    "test_more_than_one_portion_reaches_a_consumer_without_limits": "without prefetch a consumer holds 2000 at most",
    "test_a_consumer_of_higher_priority_that_cannot_be_written_to_does_not_hold_up_others": _ASSIGNED,
    "test_get_goes_past_an_exclusive_consumer": _ASSIGNED,
    "test_a_message_expires_at_the_head_only": _ANYWHERE,
    "test_a_message_that_expired_behind_another_is_not_delivered_after_it": _ASSIGNED,
    "test_reject_publish_dlx_refuses_and_dead_letters": "a quorum queue does not know reject-publish-dlx",
    "test_higher_priorities_leave_first_and_equals_in_order": _PRIORITIES,
    "test_without_priorities_the_property_changes_nothing": _PRIORITIES,
    "test_an_auto_delete_queue_asks_to_go_when_its_last_consumer_leaves": _DECLARED,
    "test_an_auto_delete_queue_that_never_had_a_consumer_stays": _DECLARED,
}
