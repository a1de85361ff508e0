#!/usr/bin/python3
# multiprocessing: pools, queues and pipes, all of which are pipes with pickled messages; forked and started anew.
import multiprocessing as m, sys
def square(x): return x * x
def fill(queue, n):
    for i in range(n): queue.put((i, 'x' * 1000))
def echo(end):
    while (message := end.recv()) is not None: end.send(message)
    end.close()
if __name__ == '__main__':
    for how in ['fork', 'spawn']:
        context = m.get_context(how)
        with context.Pool(3) as pool: print(sum(pool.imap_unordered(square, range(2000), chunksize=50)))
        queue = context.Queue(10)
        child = context.Process(target=fill, args=(queue, 300)); child.start()
        print(sum(len(queue.get()[1]) for _ in range(300))); child.join(); print(child.exitcode)
        ours, theirs = context.Pipe()
        child = context.Process(target=echo, args=(theirs,)); child.start()
        ours.send(list(range(100000))); print(len(ours.recv())); ours.send(None); child.join(); print(child.exitcode)
    r, w = m.Pipe(False)
    child = m.get_context('fork').Process(target=lambda: sys.exit(5)); child.start(); child.join(); print(child.exitcode)
    r2, w2 = m.Pipe(False); w2.close()
    try: r2.recv()
    except EOFError: print('end of stream')
