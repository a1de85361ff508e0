# Runs transform(chunks) of a file between the standard input and the standard output. What went wrong is the last that it says.
import os
import signal
import sys
import traceback

FAILED = 86


def chunks():
    while chunk := os.read(0, 1 << 17):
        yield chunk


def write(out, piece):
    if not isinstance(piece, (bytes, bytearray, memoryview)):
        raise TypeError(f"transform yields {type(piece).__name__}, and has to yield bytes")
    rest = memoryview(piece).cast("B")
    while rest:
        rest = rest[os.write(out, rest) :]


def run(file):
    with open(file, "rb") as source:
        code = compile(source.read(), file, "exec")
    names = {"__name__": "millstream", "__file__": file}
    exec(code, names)
    if not callable(names.get("transform")):
        raise NameError("it defines no transform(chunks)")
    # What it prints is not part of the stream.
    out = os.dup(1)
    os.dup2(2, 1)
    for piece in names["transform"](chunks()):
        write(out, piece)


def fail(file, error):
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == file else None
    first = error.__traceback__
    while first and first.tb_frame.f_code.co_filename != file:
        first = first.tb_next
    for frame, number in traceback.walk_tb(first):
        if frame.f_code.co_filename == file:
            line = number
    if first:
        traceback.print_exception(type(error), error, first)
    place = f"{file}, line {line}" if line else file
    what = " ".join(f"{type(error).__name__}: {error}".split())
    print(f"{place}: {what[:500].rstrip(': ')}", file=sys.stderr, flush=True)
    os._exit(FAILED)


# As a program in a pipeline: who writes what nobody reads ends.
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
try:
    run(sys.argv[0])
except Exception as error:
    fail(sys.argv[0], error)
