"""Queues and pools of each start method."""

import os
import threading

import millstream
import numpy
import pytest


def square(number):
    return number * number


def reverse(data):
    return data[::-1]


def fail(number):
    raise ValueError(number)


def produce(queue, numbers):
    for number in numbers:
        queue.put(number)
    queue.close() if hasattr(queue, "close") else None


def work(queue, results):
    while (number := queue.get()) is not None:
        results.put(number + 1)
        queue.task_done()
    queue.task_done()


def test_context_is_that_of_its_start_method():
    for method in ("fork", "forkserver", "spawn"):
        context = millstream.get_context(method)
        assert context.get_start_method() == method
        assert context.get_context() is context
        assert context.get_context("spawn") is millstream.get_context("spawn")
    assert millstream.get_context().get_start_method() in ("fork", "forkserver", "spawn")
    with pytest.raises(ValueError, match="cannot find context for 'thread'"):
        millstream.get_context("thread")


def test_pool_maps_and_reports_errors(context):
    with context.Pool(2) as pool:
        assert pool.map(square, range(200)) == [number * number for number in range(200)]
        assert sorted(pool.imap_unordered(square, range(20), chunksize=3)) == [n * n for n in range(20)]
        large = [bytearray(os.urandom(1 << 20)) for _ in range(4)]
        assert pool.map(reverse, large) == [data[::-1] for data in large]
        with pytest.raises(ValueError, match="7"):
            pool.apply(fail, (7,))
        result = pool.apply_async(square, (3,))
        assert result.get(60) == 9
    pool.join()


def test_queue_carries_what_several_processes_put(context):
    queue = context.Queue()
    children = [context.Process(target=produce, args=(queue, range(n, 600, 3))) for n in range(3)]
    for child in children:
        child.start()
    assert sorted(queue.get(timeout=60) for _ in range(600)) == list(range(600))
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    assert queue.empty()
    queue.close()
    queue.join_thread()


def test_bounded_queue_holds_no_more_than_its_size():
    queue = millstream.get_context("fork").Queue(2)
    queue.put(1)
    queue.put(2)
    assert queue.full() and queue.qsize() == 2
    with pytest.raises(Exception) as full:
        queue.put(3, block=False)
    assert type(full.value).__name__ == "Full"
    assert [queue.get(timeout=60), queue.get(timeout=60)] == [1, 2]
    with pytest.raises(Exception) as empty:
        queue.get(timeout=0.01)
    assert type(empty.value).__name__ == "Empty"
    queue.close()
    queue.join_thread()


def test_joinable_queue_knows_when_all_is_done(context):
    queue, results = context.JoinableQueue(), context.SimpleQueue()
    child = context.Process(target=work, args=(queue, results))
    child.start()
    for number in range(50):
        queue.put(number)
    queue.put(None)
    queue.join()
    assert [results.get() for _ in range(50)] == list(range(1, 51))
    child.join(60)
    assert child.exitcode == 0
    queue.close()
    queue.join_thread()
    results.close()


def test_simple_queue_carries_large_objects(context):
    queue = context.SimpleQueue()
    data = bytearray(os.urandom(4 << 20))
    child = context.Process(target=produce, args=(queue, [data, "small"]))
    child.start()
    assert queue.get() == data
    assert queue.get() == "small"
    child.join(60)
    assert queue.empty()
    queue.close()


def test_workers_that_are_replaced_leave_no_descriptor(context):
    with context.Pool(1, maxtasksperchild=1) as pool:
        counts = []
        for number in range(6):
            assert pool.apply(square, (number,)) == number * number
            counts.append(len(os.listdir("/proc/self/fd")))
    pool.join()
    # While a worker is being started there are more for a moment.
    assert min(counts[3:]) <= min(counts[:3]) + 2, counts


def test_queue_works_between_threads():
    queue = millstream.get_context("fork").SimpleQueue()
    thread = threading.Thread(target=produce, args=(type("Open", (), {"put": queue.put})(), range(1000)))
    thread.start()
    assert [queue.get() for _ in range(1000)] == list(range(1000))
    thread.join()
    queue.close()


@pytest.mark.parametrize("kind", ["Queue", "JoinableQueue"])
def test_queue_keeps_the_order_when_its_pipe_fills_and_empties(kind):
    queue = getattr(millstream.get_context("fork"), kind)()
    put = got = 0
    # More than the pipe holds goes in before anything comes out; then some of both, so that the way is changed again and again.
    for puts, gets in [(8_000, 0)] + [(500, 700)] * 40:
        for _ in range(puts):
            # A large buffer travels beside its pickle.
            queue.put((put, b"x" * 100) if put % 500 else (put, numpy.full(40_000, put)))
            put += 1
        for _ in range(gets):
            number, value = queue.get(timeout=60)
            assert number == got
            assert value == b"x" * 100 if number % 500 else (value == numpy.full(40_000, number)).all()
            got += 1
    assert put == got
    queue.close()
    queue.join_thread()


def test_queue_sends_without_a_thread_while_there_is_room():
    queue = millstream.get_context("fork").Queue()
    threads = threading.active_count()
    for number in range(2000):
        queue.put(number)
        assert queue.get(timeout=60) == number
    assert threading.active_count() == threads
    queue.close()
    queue.join_thread()
    with pytest.raises(ValueError, match="closed"):
        queue.put(1)
    with pytest.raises(OSError, match="closed"):
        queue.empty()


def test_object_that_cannot_be_pickled_is_told_as_ever_and_the_next_arrives():
    queue = millstream.get_context("fork").Queue(3)
    told = []
    queue._on_queue_feeder_error = lambda error, obj: told.append((type(error), obj))
    queue.put(1)
    unpicklable = threading.Lock()
    queue.put(unpicklable)
    queue.put(2)
    assert [queue.get(timeout=60), queue.get(timeout=60)] == [1, 2]
    assert told == [(TypeError, unpicklable)]
    # Its place in the queue is free again.
    for number in range(3):
        queue.put(number, timeout=60)
    assert [queue.get(timeout=60) for _ in range(3)] == [0, 1, 2]
    queue.close()
    queue.join_thread()


def test_queue_does_not_wait_for_a_process_that_found_it_full():
    queue = millstream.get_context("fork").Queue()
    child = millstream.get_context("fork").Process(target=produce, args=(queue, [bytes(2 << 20)]))
    child.start()
    while not queue._reader.poll(60):
        pass
    # The child holds the turn until its object is received; put() returns all the same.
    queue.put("small")
    assert len(queue.get(timeout=60)) == 2 << 20
    assert queue.get(timeout=60) == "small"
    child.join(60)
    queue.close()
    queue.join_thread()
