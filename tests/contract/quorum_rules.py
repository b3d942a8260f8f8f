"""Where quorum queues do otherwise than the suite asks of classic ones, as RabbitMQ's do: by the test that they do not pass,
the one in test_quorum_rules.py that says what holds instead."""

_AHEAD = "test_what_came_back_is_handed_out_before_everything_else_in_the_order_of_its_return"
_ASSIGNED = "test_the_group_assigns_by_prefetch_alone_whoever_can_be_written_to"
_DECLARED = "test_a_queue_that_would_go_with_its_consumers_or_its_node_is_refused"
_ANYWHERE = "test_a_message_expires_when_its_time_has_come_wherever_it_stands"
_PRIORITIES = "test_there_are_always_32_priorities_and_4_is_the_default_one"

QUORUM_RULES = {
    "test_parts_of_a_slice_are_settled_in_any_order_each_its_own_way": _AHEAD,
    "test_the_next_in_line_takes_over_when_the_active_consumer_leaves": _AHEAD,
    "test_any_sequence_of_steps_ends_as_it_does_for_a_list": _AHEAD,
    "test_a_queue_does_what_the_list_does": _AHEAD,
    "test_no_message_is_lost_or_doubled_by_a_limit": _AHEAD,
    "test_more_than_one_portion_reaches_a_consumer_without_limits": "test_a_consumer_without_prefetch_holds_2000_at_most",
    "test_a_consumer_of_higher_priority_that_cannot_be_written_to_does_not_hold_up_others": _ASSIGNED,
    "test_get_goes_past_an_exclusive_consumer": _ASSIGNED,
    "test_a_message_expires_at_the_head_only": _ANYWHERE,
    "test_a_message_that_expired_behind_another_is_not_delivered_after_it": _ASSIGNED,
    "test_reject_publish_dlx_refuses_and_dead_letters": "test_reject_publish_dlx_is_taken_for_drop_head",
    "test_higher_priorities_leave_first_and_equals_in_order": _PRIORITIES,
    "test_without_priorities_the_property_changes_nothing": _PRIORITIES,
    "test_an_auto_delete_queue_asks_to_go_when_its_last_consumer_leaves": _DECLARED,
    "test_an_auto_delete_queue_that_never_had_a_consumer_stays": _DECLARED,
}
