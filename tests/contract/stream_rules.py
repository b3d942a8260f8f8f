"""What of the suite holds for streams too: nobody takes anything away from them, so most of it does not. What holds instead is
in test_stream_rules.py."""

STREAM_RULES = frozenset(
    {
        "test_a_deleted_queue_ignores_what_still_comes_back_to_it",
        "test_a_run_for_several_queues_is_accepted_when_each_has_it",
        "test_a_sink_that_is_not_writable_gets_nothing_until_it_is",
        "test_a_transient_message_is_accepted_too",
        "test_cancelling_twice_does_nothing",
        "test_every_publish_is_answered_exactly_once",
        "test_exchange_and_key_of_the_publish_come_with_each_delivery",
        "test_prefetch_is_never_exceeded",
        "test_the_details_that_are_shown_of_a_queue_are_not_kept_with_it",
        "test_what_is_browsed_is_bounded_by_its_bytes_and_one_message_comes_in_any_case",
        "test_what_was_published_to_a_queue_that_is_deleted_counts_as_confirmed",
    }
)
