"""Tables and buffers of pyarrow, through connections and in the pipe's own memory."""

import millstream
import numpy
import pytest

pyarrow = pytest.importorskip("pyarrow")


@pytest.fixture
def table():
    numbers = numpy.arange(50_000.0)
    return pyarrow.table({"numbers": numbers, "words": [str(number) for number in range(50_000)]})


@pytest.mark.parametrize("arena", [None, 8 << 20])
def test_tables_travel_beside_their_pickle(table, arena):
    receiver, sender = millstream.Pipe(duplex=False, trust=True, arena=arena, capacity=1 << 20)
    message, beside = millstream.connection.dump(table)
    assert beside and len(message) < 10_000 and sum(buffer.nbytes for buffer in beside) > 400_000
    for borrow in (False, True):
        sender.send(table)
        if borrow:
            with receiver.recv(borrow=True) as received:
                assert received.is_in_place and received.value.equals(table)
        else:
            assert receiver.recv().equals(table)
    receiver.close()
    sender.close()


def test_buffers_of_the_pipe_are_arrays():
    reader, writer = millstream.pipe(trust=True)
    with writer.reserve(8000) as room:
        numpy.frombuffer(room, "f8")[:] = numpy.arange(1000.0)
    with pytest.raises(BufferError), reader.borrow(8000) as view:
        numbers = pyarrow.Array.from_buffers(pyarrow.float64(), 1000, [None, pyarrow.py_buffer(view)])
        assert numbers.sum().as_py() == 499_500
    del numbers, view
    reader.close()
    writer.close()
