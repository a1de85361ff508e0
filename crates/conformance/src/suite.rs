//! The list of all tests, and what makes a `#[test]` of each.

/// Makes a `#[test]` of every test of the contract that applies to the implementation, in modules named after its
/// paragraphs: `contract!(threads: Model)` for one that works between threads only, `contract!(processes: Kernel)` for one
/// that works between processes too. What only those can do stands after `between processes`.
#[macro_export]
macro_rules! contract {
    ($scope:ident: $implementation:ty) => {
        $crate::instantiate! {
            $scope: $implementation;
            bytes {
                a_stream_of_four_times_the_capacity_arrives_in_order
                a_long_stream_arrives_whole_in_large_transfers
                a_long_stream_arrives_whole_from_small_writes_to_large_reads
                a_long_stream_arrives_whole_from_large_writes_to_small_reads
                single_bytes_arrive_in_order
                single_bytes_fill_the_pipe_to_its_capacity
                transfers_of_no_bytes_return_at_once_and_move_nothing
                an_empty_list_of_buffers_is_a_transfer_of_no_bytes
                an_empty_write_is_no_end_of_the_stream
                the_smallest_pipe_wraps_around_at_every_size
                a_pipe_of_two_pages_wraps_around_at_every_size
                a_pipe_of_the_default_size_wraps_around_at_every_size
                the_smallest_pipe_holds_exactly_one_page
                a_stream_through_the_smallest_pipe_arrives_whole
                a_blocking_write_larger_than_the_pipe_goes_in_whole
                a_read_returns_all_that_waits_up_to_its_size
                a_read_takes_a_part_of_a_write_and_leaves_the_rest
                a_large_nonblocking_write_takes_what_fits
                a_small_nonblocking_write_goes_in_whole_or_not_at_all
                small_writes_of_two_threads_stay_whole
                small_writes_of_eight_threads_stay_whole
                small_nonblocking_writes_of_eight_threads_stay_whole
                small_writes_stay_whole_beside_large_ones
                readers_share_a_stream_and_each_byte_goes_to_one
                vectored_transfers_keep_the_order
                a_vectored_read_fills_its_buffers_in_turn
                a_small_vectored_write_goes_in_whole_or_not_at_all
                a_large_nonblocking_vectored_write_takes_what_fits
                ; between processes:
                small_writes_of_two_processes_stay_whole
                small_writes_of_eight_processes_stay_whole
                small_nonblocking_writes_of_eight_processes_stay_whole
                readers_in_four_processes_share_a_stream_and_each_byte_goes_to_one
            }
            blocking {
                a_reader_of_an_empty_pipe_sleeps_until_bytes_come
                a_writer_to_a_full_pipe_sleeps_until_there_is_room
                a_large_write_sleeps_with_a_part_of_it_in_the_pipe
                a_nonblocking_read_of_an_empty_pipe_is_refused
                a_nonblocking_write_to_a_full_pipe_is_refused
                nonblocking_counts_for_clones_and_not_for_the_other_end
                a_small_write_waits_for_room_for_all_of_it
                a_byte_goes_back_and_forth_without_a_lost_wake_up
                a_full_pipe_is_handed_over_without_a_lost_wake_up
                a_hundred_sleeping_readers_each_get_one_of_a_hundred_bytes
                a_hundred_sleeping_writers_all_go_on_when_the_pipe_is_drained
                a_read_by_one_of_many_wakes_a_second_reader_for_the_rest
                ; between processes:
                a_reader_in_another_process_sleeps_until_bytes_come
                a_writer_in_another_process_sleeps_until_there_is_room
                a_signal_interrupts_a_read_that_has_nothing
                a_signal_interrupts_a_write_that_has_done_nothing
                a_signal_ends_a_write_in_the_middle_with_what_went_in
                a_restarting_signal_too_ends_a_write_in_the_middle
                a_read_goes_on_after_a_restarting_signal
                a_write_goes_on_after_a_restarting_signal
                a_storm_of_signals_loses_no_byte
            }
            end_of_stream {
                reads_give_zero_once_the_pipe_is_drained_and_keep_giving_zero
                a_pipe_that_was_never_written_to_ends_too
                a_full_pipe_is_read_to_its_last_byte_after_the_writer_is_gone
                the_stream_ends_with_the_last_clone_of_the_writer
                a_clone_writes_on_when_the_original_is_gone
                a_nonblocking_read_at_the_end_gives_zero
                a_write_without_a_reader_is_refused
                a_write_without_a_reader_is_refused_with_bytes_still_waiting
                a_write_is_refused_only_after_the_last_clone_of_the_reader
                a_write_of_no_bytes_needs_no_reader
                a_write_in_the_middle_returns_its_count_when_the_reader_goes
                the_end_wakes_a_hundred_sleeping_readers
                the_end_wakes_a_hundred_sleeping_writers
                an_end_that_comes_at_any_moment_is_seen
                a_reader_that_goes_at_any_moment_is_seen
                ; between processes:
                a_write_without_a_reader_kills_by_sigpipe
                a_write_that_sleeps_is_killed_by_sigpipe_when_the_reader_goes
                a_write_without_a_reader_is_refused_where_sigpipe_is_ignored
                each_refused_write_raises_sigpipe_once
                a_write_that_loses_its_reader_in_the_middle_raises_sigpipe
                the_end_wakes_sleeping_readers_in_ten_processes
                the_end_wakes_sleeping_writers_in_ten_processes
            }
            ends_travel {
                ; between processes:
                a_child_writes_and_the_parent_reads
                the_parent_writes_and_a_child_reads
                a_child_of_a_child_writes_and_the_first_parent_reads
                two_children_talk_when_the_parent_has_let_go
                bytes_go_there_and_back_through_a_child
                ends_that_a_child_closes_stay_open_in_the_parent
                ends_that_the_parent_closes_stay_open_in_a_child
                bytes_from_before_the_fork_are_read_by_the_child
                what_a_child_has_read_is_gone_for_the_parent
                bytes_of_a_child_that_has_ended_are_read_by_the_parent
                a_child_that_ends_without_closing_has_closed
                parent_and_child_take_turns_on_the_same_end
                the_stream_ends_with_the_last_of_eight_children
                forks_in_the_middle_of_a_stream_change_nothing
                a_child_forked_in_the_middle_of_a_stream_takes_over_the_writing
                nonblocking_is_shared_with_a_child
                the_capacity_is_shared_with_a_child
                a_child_counts_the_bytes_that_the_parent_wrote
            }
            control {
                both_ends_count_the_waiting_bytes_at_every_level
                waiting_bytes_are_counted_after_the_other_end_is_gone
                the_capacity_is_rounded_up_to_a_power_of_two_of_pages
                the_capacity_can_be_set_when_the_other_end_is_gone
                as_many_bytes_fit_as_the_capacity_says
                shrinking_below_the_content_is_refused_and_changes_nothing
                a_full_pipe_can_be_shrunk_once_enough_was_read
                more_than_two_gibibytes_are_refused
                growing_and_shrinking_keep_what_waits
                a_stream_is_not_disturbed_by_changes_of_the_capacity
                a_sleeping_writer_goes_on_when_the_pipe_grows
                a_sleeping_reader_sleeps_on_when_the_pipe_grows
                ; between processes:
                more_than_the_limit_is_refused_to_the_unprivileged
                more_than_the_limit_is_refused_without_cap_sys_resource
                a_writer_in_another_process_goes_on_when_the_pipe_grows
            }
            descriptors {
                ; between processes:
                copies_of_a_write_end_by_dup_and_fcntl_are_the_same_end
                copies_of_a_read_end_by_dup_and_fcntl_are_the_same_end
                an_end_opened_once_more_by_its_number_has_flags_of_its_own
                a_program_reads_what_waited_and_what_comes_later
                a_program_writes_behind_what_waited_and_before_what_comes_later
                a_program_that_is_killed_has_closed
                an_end_that_is_closed_on_exec_does_not_reach_a_program
                an_end_that_is_not_closed_on_exec_is_a_programs_too
                a_read_end_travels_over_a_socket
                a_read_end_travels_over_a_socket_and_is_an_end_again
                a_write_end_travels_over_a_socket
                a_write_end_travels_over_a_socket_and_is_an_end_again
                an_end_under_way_in_a_socket_is_open
            }
            refusals {
                ; between processes:
                end_is_fifo_to_fstat
                a_pipe_has_no_positions
                a_pipe_is_not_truncated
                the_wrong_end_is_neither_read_nor_written
                descriptors_count_what_waited_and_what_came
                the_capacity_is_set_and_refused_by_descriptor
                an_end_that_does_not_block_does_not_block_as_a_descriptor
                a_descriptor_is_polled_and_tells_by_signal
                splice_moves_from_a_file_and_to_a_file
                splice_is_refused_as_by_the_kernel
                tee_shows_without_taking_and_is_refused_as_by_the_kernel
                vmsplice_moves_and_is_refused_as_by_the_kernel
            }
            readiness {
                ; between processes:
                a_reader_is_ready_while_bytes_wait
                a_reader_that_is_first_asked_when_bytes_wait_is_ready
                a_read_or_write_of_no_bytes_makes_nothing_ready
                a_reader_hears_that_the_writers_are_gone
                a_reader_that_is_first_asked_at_the_end_hears_of_it
                a_writer_is_ready_until_the_pipe_is_full
                a_writer_is_ready_when_there_is_room_for_a_small_write
                a_writer_that_is_first_asked_when_the_pipe_was_full_is_ready_in_time
                a_writer_hears_that_the_readers_are_gone
                a_writer_of_a_full_pipe_hears_that_the_readers_are_gone
                clones_are_ready_like_the_original
                growing_makes_a_full_pipe_ready_again
                write_wakes_poller_of_reader
                end_of_stream_wakes_poller_of_reader
                read_that_makes_room_wakes_poller_of_writer
                last_close_of_readers_wakes_poller_of_writer
                each_write_triggers_an_edge_triggered_reader_again
                each_change_is_told_by_a_signal
                an_edge_triggered_reader_that_drains_each_time_gets_all
                an_edge_triggered_writer_is_told_when_a_full_pipe_has_room_again
                an_edge_triggered_writer_that_fills_each_time_sends_all
                a_level_triggered_watcher_tells_it_until_the_pipe_is_drained
                a_poller_whose_time_is_over_leaves_the_others_to_be_woken
                a_write_wakes_every_poller
                poller_does_not_keep_byte_from_reader
                a_ready_writer_is_never_refused_a_small_write
                a_ready_reader_is_never_refused_a_read
                write_wakes_poller_of_reader_in_another_process
                read_wakes_poller_of_writer_in_another_process
                writer_death_wakes_poller_of_reader
            }
            death {
                ; between processes:
                a_killed_writer_that_slept_leaves_what_it_wrote_and_the_end
                a_killed_reader_that_slept_leaves_a_broken_pipe
                a_writer_killed_in_small_writes_leaves_a_beginning_and_the_end
                a_writer_killed_in_writes_of_a_page_leaves_a_beginning_and_the_end
                a_writer_killed_in_large_writes_leaves_a_beginning_and_the_end
                what_a_killed_writer_said_that_it_wrote_is_there
                a_reader_killed_while_streaming_leaves_a_broken_pipe
                the_death_of_one_of_two_writers_leaves_the_other_its_reader
                the_death_of_one_of_two_readers_leaves_the_other_the_rest
                a_killed_process_frees_both_its_ends
                waiters_wake_when_peer_process_is_killed
                a_stopped_writer_only_delays_the_stream
                a_stopped_reader_only_delays_the_stream
                waiter_sleeps_on_after_stop_and_continue
                stopped_waiter_finds_bytes_written_meanwhile
                a_stopped_writer_that_is_killed_has_closed
            }
        }
    };
}

/// The hand of [`contract!`].
#[doc(hidden)]
#[macro_export]
macro_rules! instantiate {
    (threads: $implementation:ty; $($module:ident { $($test:ident)* $(; between processes: $($more:ident)*)? })*) => {
        $(mod $module { $($crate::instantiate!(@ $module $test $implementation);)* })*
    };
    (processes: $implementation:ty; $($module:ident { $($test:ident)* $(; between processes: $($more:ident)*)? })*) => {
        $(mod $module {
            $($crate::instantiate!(@ $module $test $implementation);)*
            $($($crate::instantiate!(@ $module $more $implementation);)*)?
        })*
    };
    (@ $module:ident $test:ident $implementation:ty) => {
        #[test]
        fn $test() {
            $crate::isolated::run(module_path!(), stringify!($test), $crate::$module::$test::<$implementation>);
        }
    };
}

#[cfg(test)]
mod tests {
    /// A test that is written and not listed would never run.
    #[test]
    fn every_test_is_listed() {
        let list: Vec<&str> = include_str!("suite.rs").split_whitespace().collect();
        let mut count = 0;
        for source in [
            include_str!("bytes.rs"),
            include_str!("blocking.rs"),
            include_str!("end_of_stream.rs"),
            include_str!("ends_travel.rs"),
            include_str!("control.rs"),
            include_str!("readiness.rs"),
            include_str!("death.rs"),
            include_str!("descriptors.rs"),
            include_str!("refusals.rs"),
        ] {
            for line in source.lines().filter_map(|line| line.strip_prefix("pub fn ")) {
                let name = line.split('<').next().unwrap();
                assert!(list.contains(&name), "{name} is not in the list");
                count += 1;
            }
        }
        assert!(count > 100, "only {count} tests were found");
    }

    /// What `docs/contract.md` says of which test holds which promise.
    #[test]
    fn every_promise_names_tests_that_are_run() {
        let lists = [include_str!("suite.rs"), include_str!("opening.rs")]
            .map(|list| list.split_once("mod tests").unwrap_or((list, "")).0);
        let listed: Vec<&str> = lists.iter().flat_map(|list| list.split_whitespace()).collect();
        let rows = include_str!("../../../docs/contract.md").lines().filter(|line| line.starts_with("| "));
        let mut count = 0;
        for row in rows.filter(|row| !row.starts_with("| promise")) {
            let tests = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
            let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
            assert!(!names.is_empty(), "no test: {row}");
            for name in names {
                assert!(listed.contains(&name), "{name} is not in the list");
            }
            count += 1;
        }
        assert!(count > 40, "only {count} promises");
    }
}
