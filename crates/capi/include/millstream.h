/* Pipes with the semantics of pipe(2) whose bytes go through shared memory: the C interface of millstream.
 *
 * Link with -lmillstream, or ask pkg-config for millstream. Every function that fails returns -1 and sets errno; ms_strerror()
 * tells what the number means here. Handles are made by ms_pipe(), ms_fifo_open() and ms_attach_reader() and their relatives, and
 * end with ms_close() or ms_export(). See millstream(7).
 *
 * Made by cbindgen from crates/capi; do not edit.
 */


#ifndef MILLSTREAM_H
#define MILLSTREAM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/** The version of this header, as "0.1.0". ms_version() is that of the library in use. */
#define MS_VERSION "0.1.0"

/** Options as they are without any, to be changed: ms_options options = MS_OPTIONS_INIT; */
#define MS_OPTIONS_INIT { sizeof(ms_options), 0, 0, 0, 0 }

/** Statistics to be filled: ms_statistics statistics = MS_STATISTICS_INIT; */
#define MS_STATISTICS_INIT { sizeof(ms_statistics), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }


/**
 * The ends are non-blocking at first.
 */
#define MS_NONBLOCK 1

/**
 * The ends stay open when this process executes another program. The kernel carries the bytes of such a pipe.
 */
#define MS_INHERIT 2

/**
 * ms_peek() and ms_reserve() lead to the memory of the pipe itself, with no copy. A promise: until the pipe is closed every
 * process that has an end of it uses it through this library only, of this version, and writes to no memory that ms_peek()
 * shows. A process that breaks it can change what another reads at any time.
 */
#define MS_TRUST_PEERS 4

/**
 * Of a FIFO: its bytes may go through shared memory where both ends are of this library and ask for it. A reader that asks
 * may read ahead up to a FIFO full, which no other process can then read.
 */
#define MS_SHARE 8

/**
 * Of a broadcast: a slow reader loses bytes, instead of holding up the writer.
 */
#define MS_LOSSY 16

/**
 * Waiting as the user's settings say (the default).
 */
#define MS_WAIT_DEFAULT 0

/**
 * Spin for a while where that pays, then sleep.
 */
#define MS_WAIT_ADAPTIVE 1

/**
 * Never sleep. For an end that has a CPU for itself.
 */
#define MS_WAIT_SPIN 2

/**
 * Sleep at once, as the kernel's pipe does.
 */
#define MS_WAIT_BLOCK 3

/**
 * The read end of a pipe.
 *
 * Any number of threads may use one handle at the same time, with one exception: from the call of ms_peek() until
 * ms_consume() has returned no other thread is in a call with this handle, or enters one. Other threads take handles of their
 * own. A handle is inherited by fork(); parent and child each close theirs.
 */
typedef struct ms_reader ms_reader;

/**
 * The write end of a pipe.
 *
 * Any number of threads may use one handle at the same time, with one exception: from the call of ms_reserve() until
 * ms_commit() has returned no other thread is in a call with this handle, or enters one. Other threads take handles of their
 * own. A handle is inherited by fork(); parent and child each close theirs.
 */
typedef struct ms_writer ms_writer;

/**
 * What a pipe is made with. Start from MS_OPTIONS_INIT, so that members which later versions add are 0.
 */
typedef struct ms_options {
  /**
   * sizeof(ms_options)
   */
  size_t size;
  /**
   * Bytes that the pipe holds when full, 1 to 2 GiB; rounded up to a power of two of at least 4096. 0: the default, 512 KiB
   * unless the user's settings say otherwise. A FIFO has the kernel's capacity.
   */
  size_t capacity;
  /**
   * MS_NONBLOCK and others, combined with |.
   */
  uint32_t flags;
  /**
   * How the ends wait: MS_WAIT_DEFAULT or another.
   */
  uint32_t wait;
  /**
   * Bytes that each end works on in place at most. 0: the default, 16 MiB.
   */
  size_t in_place_max;
} ms_options;

/**
 * Either an ms_reader or an ms_writer.
 */
typedef void ms_end;

/**
 * What a handle has done since it was made. Other handles to the same end, and children of a fork, count for themselves. Start
 * from MS_STATISTICS_INIT: later versions add members.
 */
typedef struct ms_statistics {
  /**
   * sizeof(ms_statistics)
   */
  size_t size;
  /**
   * Bytes moved, in whatever way.
   */
  uint64_t bytes;
  /**
   * Of these, the bytes that the kernel's pipe has carried.
   */
  uint64_t bytes_through_kernel;
  /**
   * Of these, the bytes that ms_copy_to() and ms_copy_from() have moved.
   */
  uint64_t bytes_copied;
  /**
   * Of these, the bytes that the program has worked on in the pipe itself.
   */
  uint64_t bytes_in_place;
  /**
   * Of these, the bytes that the reader has copied straight out of the writer's memory.
   */
  uint64_t bytes_single_copy;
  /**
   * Times that bytes were moved.
   */
  uint64_t transfers;
  /**
   * Times that the end looked for the other side without sleeping.
   */
  uint64_t spins;
  /**
   * Times that it yielded the CPU.
   */
  uint64_t yields;
  /**
   * Times that it slept.
   */
  uint64_t sleeps;
  /**
   * Times that it woke the other side.
   */
  uint64_t wakes;
} ms_statistics;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Makes a broadcast: one writer, and reader_count readers (1 to 64) that each see every byte, which is copied once for all. The
 * slowest reader decides how fast the writer is. With MS_LOSSY the writer never waits for a reader: one that is behind by more
 * than the capacity gets ENOBUFS from ms_read(), and ms_lost() says how many bytes it will never see. MS_NONBLOCK is the only other
 * flag that is allowed.
 *
 * The handles are closed by ms_close(), read and written by ms_read(), ms_readv(), ms_write() and ms_writev(), and asked and told
 * by ms_set_nonblock(), ms_capacity() and ms_stats(). Readers also have ms_fileno(), which may be ready once in vain, ms_readable()
 * and ms_export(), for ms_attach_broadcast(). Functions that only pipes have fail with EBADF or EOPNOTSUPP. Only one thread at a
 * time may use the writer: a second gets EBUSY. A reader that is closed or killed frees its place. When none is left, writing
 * fails with EPIPE; when the writer is gone, readers read 0 after all bytes.
 *
 * Returns 0, or -1 with errno: EINVAL for another number of readers or options that make no sense; those of ms_pipe().
 *
 * Requires:
 * `writer` leads to room for a pointer, `readers` to room for `reader_count`; `options` as for ms_pipe().
 */
int ms_broadcast(struct ms_writer **writer,
                 struct ms_reader **readers,
                 size_t reader_count,
                 const struct ms_options *options);

/**
 * One more reader of a broadcast, which sees what is written from now on.
 *
 * Returns 0, or -1 with errno: EUSERS if there are 64; EBUSY if another thread uses the writer; ESTALE in a process whose copy of
 * the writer, from before a fork, does not know a reader that another copy has added; EBADF, EMFILE, ENFILE.
 *
 * Requires:
 * `writer` is null or a handle; `reader` leads to room for a pointer.
 */
int ms_add_reader(struct ms_writer *writer,
                  struct ms_reader **reader);

/**
 * Readers of a broadcast that are left.
 *
 * Returns their number, or -1 with errno: EBADF; EBUSY if another thread uses the writer.
 *
 * Requires:
 * `writer` is null or a handle.
 */
ssize_t ms_reader_count(struct ms_writer *writer);

/**
 * All bytes that a reader of a lossy broadcast has lost so far, as far as ms_read() and ms_readv() have told it by ENOBUFS.
 *
 * Returns 0, or -1 with errno: EBADF, EINVAL for NULL.
 *
 * Requires:
 * `reader` is null or a handle; `bytes` leads to room for a number.
 */
int ms_lost(const struct ms_reader *reader,
            uint64_t *bytes);

/**
 * Takes over a reader of a broadcast, from ms_export() of a process of the same user, while that process or the writer lives.
 *
 * Returns 0; the descriptor then belongs to the handle. Or -1 with errno: EINVAL if it is no such reader, EBADF; EMFILE and its
 * like. The descriptor is closed then, unless errno is EBADF or it is no read end of a pipe.
 *
 * Requires:
 * `reader` leads to room for a pointer; nothing else uses the descriptor.
 */
int ms_attach_broadcast(struct ms_reader **reader,
                        int fd);

/**
 * A descriptor for poll(2), select(2), epoll(7) and what is built on them: ready exactly when that end of a kernel pipe would be.
 * Only to be watched, never to be read, written or closed. It lasts as long as the handle: take it out of an epoll set before
 * ms_close(), because another process may have inherited it, and the set would keep it. From the first call on, every
 * change between empty and not empty, or full and not full, costs the process that makes it a system call.
 *
 * Returns the descriptor, or -1 with errno: EBADF, EMFILE, ENOMEM.
 *
 * Requires:
 * `end` is null or a handle.
 */
int ms_fileno(ms_end *end);

/**
 * Whether calls on this end return EAGAIN instead of sleeping; also those of its other handles, and of other processes that have
 * inherited it.
 *
 * Returns 0, or -1 with errno: EBADF.
 *
 * Requires:
 * `end` is null or a handle.
 */
int ms_set_nonblock(ms_end *end,
                    int nonblocking);

/**
 * Bytes that the pipe holds when full.
 *
 * Returns them, or -1 with errno: EBADF, EIO, ENOMEM.
 *
 * Requires:
 * `end` is null or a handle.
 */
ssize_t ms_capacity(ms_end *end);

/**
 * Makes the pipe larger or smaller while it is in use (`F_SETPIPE_SZ`): size is rounded up to a power of two of at least 4096.
 * Bytes that wait are kept.
 *
 * Returns the new capacity, or -1 with errno: EBUSY if more bytes wait than it would hold, or some are reserved or shown; EPERM
 * if it grows beyond what this user may have; EINVAL above 2 GiB; EBADF. The capacity is what it was before then.
 *
 * Requires:
 * `end` is null or a handle.
 */
ssize_t ms_set_capacity(ms_end *end,
                        size_t size);

/**
 * Bytes that wait to be read (`FIONREAD`).
 *
 * Returns them, or -1 with errno: EBADF, EIO, ENOMEM.
 *
 * Requires:
 * `end` is null or a handle.
 */
ssize_t ms_readable(ms_end *end);

/**
 * Fills as much of the statistics as their size says and this version knows; members that it does not know become 0.
 *
 * Returns 0, or -1 with errno: EINVAL for a size that is too small, EBADF.
 *
 * Requires:
 * `end` is null or a handle; `statistics` leads to as many bytes as its `size`.
 */
int ms_stats(ms_end *end,
             struct ms_statistics *statistics);

/**
 * The version of the library that is in use, as "0.1.0". MS_VERSION is that of the header.
 */
const char *ms_version(void);

/**
 * What an error number means when it comes from a function of this library, and what to do about it. Always a text, which
 * lasts as long as the program.
 */
const char *ms_strerror(int error);

/**
 * Shows up to size bytes that wait, without taking them; sleeps until there are some. They lie in two pieces: those of the
 * second follow those of the first, which is empty only if both are. They can be read until ms_consume() or ms_close(), by
 * this thread and whatever it lets see them; the handle is this thread's for so long. Called again before ms_consume() it
 * shows the same bytes, whatever has come meanwhile.
 *
 * With MS_TRUST_PEERS the pieces lead into the pipe itself: other readers wait until ms_consume(), and if this process dies
 * the bytes were never taken. Without it up to 1 MiB is read ahead into memory of the handle: other readers do not see them any
 * more, what is not consumed is the next that this handle reads, and fork() copies it, as it does the buffers of stdio.
 *
 * Returns the number of bytes; 0 at the end of the stream, and for a size of 0. Or -1 with errno: those of ms_read().
 *
 * Requires:
 * `reader` is null or a handle that no other thread uses; `pieces` leads to room for two.
 */
ssize_t ms_peek(struct ms_reader *reader,
                struct iovec *pieces,
                size_t size);

/**
 * Takes the first bytes of what ms_peek() has shown. What is left is the next that is read. Wakes a writer that waits for
 * room.
 *
 * Returns 0, or -1 with errno: EINVAL for more bytes than were shown; EBADF. They are still shown then.
 *
 * Requires:
 * As for ms_peek(). What was shown is not read any more.
 */
int ms_consume(struct ms_reader *reader,
               size_t size);

/**
 * Reserves room for up to size bytes, to be filled in any order and committed; sleeps as a write of so many would. The room
 * lies in two pieces: what is in the second follows what is in the first. What is in it before is any bytes. It can be filled
 * until ms_commit() or ms_close(), by this thread and whatever it lets fill it; the handle is this thread's for so long.
 *
 * With MS_TRUST_PEERS the pieces lead into the pipe itself, other writers wait until ms_commit(), and if this process dies
 * nothing of it was written. Without it they are memory of the handle, which ms_commit() writes.
 *
 * Returns the number of bytes that there is room for, at least 1 and at most size; 0 only for a size of 0. Or -1 with errno:
 * those of ms_write(). What was reserved before and not committed is given back first.
 *
 * Requires:
 * `writer` is null or a handle that no other thread uses; `pieces` leads to room for two.
 */
ssize_t ms_reserve(struct ms_writer *writer,
                   struct iovec *pieces,
                   size_t size);

/**
 * Writes the first bytes of the room that ms_reserve() has given; the rest is given back. Wakes a reader that waits.
 *
 * Returns the number of bytes written; or -1 with errno: those of ms_write(), after which nothing of the room was written;
 * EPERM with MS_TRUST_PEERS in the child of a fork, whose parent has reserved the room; EINVAL for more bytes than were
 * reserved, which stay reserved then.
 *
 * Requires:
 * As for ms_reserve(). The room is not written to any more.
 */
ssize_t ms_commit(struct ms_writer *writer,
                  size_t size);

/**
 * Makes a pipe, as pipe2(2) does: blocking, both ends closed on exec, unless the options say otherwise. NULL for the options
 * means the defaults. A pipe takes three descriptors.
 *
 * Returns 0, or -1 with errno: EMFILE, ENFILE, ENOMEM; EPERM for a capacity above what this user may have; EINVAL and E2BIG
 * for options that make no sense or are of a later version.
 *
 * Requires:
 * `reader` and `writer` lead to room for a pointer each; `options` is null or leads to as many bytes as its `size`.
 */
int ms_pipe(struct ms_reader **reader,
            struct ms_writer **writer,
            const struct ms_options *options);

/**
 * Opens the FIFO at a path, which mkfifo(3) has made. Any program may have the other end. For a side that is not wanted pass
 * NULL; opening one side waits until the other is open too, unless MS_NONBLOCK is set.
 *
 * Returns 0, or -1 with errno: those of open(2); ENXIO for writing with MS_NONBLOCK if nothing has it open for reading;
 * EINTR; EINVAL if something else is at the path, if both pointers are NULL, or for options that make no sense.
 *
 * Requires:
 * `reader` and `writer` are null or lead to room for a pointer each; `path` is a C string; `options` as for ms_pipe().
 */
int ms_fifo_open(struct ms_reader **reader,
                 struct ms_writer **writer,
                 const char *path,
                 const struct ms_options *options);

/**
 * Another handle to the same read end, as dup(2) makes it. The end is closed when all its handles are.
 *
 * Returns 0, or -1 with errno: EMFILE, EBADF.
 *
 * Requires:
 * `reader` is null or a handle; `copy` leads to room for a pointer.
 */
int ms_dup_reader(const struct ms_reader *reader,
                  struct ms_reader **copy);

/**
 * Another handle to the same write end, as dup(2) makes it. The end is closed when all its handles are.
 *
 * Returns 0, or -1 with errno: EMFILE, EBADF.
 *
 * Requires:
 * `writer` is null or a handle; `copy` leads to room for a pointer.
 */
int ms_dup_writer(const struct ms_writer *writer,
                  struct ms_writer **copy);

/**
 * Closes a handle, which is not used again. What was shown or reserved is given back: bytes that were not consumed stay in
 * the pipe, if MS_TRUST_PEERS is set; without it they were read ahead and are gone.
 *
 * Returns 0, or -1 with errno: EBADF for NULL; for the writer of a FIFO the error of putting the last bytes into the kernel's
 * FIFO. The handle is closed then, too.
 *
 * Requires:
 * `end` is null or a handle, and no other thread uses it.
 */
int ms_close(ms_end *end);

/**
 * Takes over the read end of any pipe or FIFO: inherited, or received over a Unix socket. If it comes from ms_export() of a
 * process of the same user that still has the other end, the bytes go through shared memory again; otherwise the kernel
 * carries them, and everything works the same.
 *
 * Returns 0; the descriptor then belongs to the handle. Or -1 with errno: EBADF if it is not open for reading, EINVAL if it is
 * no pipe or FIFO; EMFILE and its like. The descriptor is closed then, unless errno is EBADF or EINVAL.
 *
 * Requires:
 * `reader` leads to room for a pointer; nothing else uses the descriptor.
 */
int ms_attach_reader(struct ms_reader **reader,
                     int fd);

/**
 * Takes over the write end of any pipe or FIFO, as ms_attach_reader() does a read end.
 *
 * Requires:
 * As for ms_attach_reader().
 */
int ms_attach_writer(struct ms_writer **writer, int fd);

/**
 * Gives an end away as a plain descriptor of a kernel pipe, closed on exec, for a program that need not know millstream: bytes
 * that wait were put into that pipe first. The handle is not used again. While the descriptor is open anywhere the kernel
 * carries the bytes; ms_attach_reader() and ms_attach_writer() change that. The descriptor of a broadcast's reader is for
 * ms_attach_broadcast() only.
 *
 * Returns the descriptor, or -1 with errno: EBUSY if bytes of the handle are shown, reserved or read ahead; the handle can be
 * used on then, and after EOPNOTSUPP, for the writer of a broadcast. After other errors it is closed: ENOBUFS if more bytes wait than this user may have in a kernel pipe, EMFILE.
 *
 * Requires:
 * `end` is null or a handle, and no other thread uses it.
 */
int ms_export(ms_end *end);

/**
 * Reads up to size bytes, as read(2) from a pipe: what waits, or sleeps until something does.
 *
 * Returns the number of bytes; 0 at the end of the stream, when no writer is left, and for a size of 0. Or -1 with errno:
 * EAGAIN if nothing waits and the end is non-blocking; EINTR; EBADF; EFAULT for NULL; EBUSY between ms_peek() and ms_consume(); EIO if another
 * process has damaged the shared memory; ENOBUFS if this reader of a lossy broadcast was too slow. No error has taken a byte.
 *
 * Requires:
 * `reader` is null or a handle; `buffer` leads to `size` bytes that can be written.
 */
ssize_t ms_read(struct ms_reader *reader,
                void *buffer,
                size_t size);

/**
 * Reads into several buffers, one after the other, as readv(2).
 *
 * Returns and errors as ms_read(); EINVAL for fewer than 0 or more than 1024 buffers.
 *
 * Requires:
 * `reader` is null or a handle; `buffers` leads to `buffer_count` buffers, each of which can be written.
 */
ssize_t ms_readv(struct ms_reader *reader,
                 const struct iovec *buffers,
                 int buffer_count);

/**
 * Writes size bytes, as write(2) to a pipe: up to PIPE_BUF (4096) bytes at once or not at all, and sleeps until all are
 * written, unless the end is non-blocking.
 *
 * Returns the number of bytes: fewer than size only if the end is non-blocking or a signal handler ran. Or -1 with errno:
 * EPIPE, after SIGPIPE, if no reader is left; EAGAIN; EINTR; EBADF; EBUSY between ms_reserve() and ms_commit(), or at a
 * broadcast that another thread writes to; EIO; ENOMEM or ENOSPC if there is no memory for the bytes; ESTALE as
 * ms_add_reader().
 *
 * Requires:
 * `writer` is null or a handle; `buffer` leads to `size` bytes.
 */
ssize_t ms_write(struct ms_writer *writer,
                 const void *buffer,
                 size_t size);

/**
 * Writes several buffers, one after the other, as writev(2): up to PIPE_BUF bytes together at once or not at all.
 *
 * Returns and errors as ms_write(); EINVAL for fewer than 0 or more than 1024 buffers.
 *
 * Requires:
 * `writer` is null or a handle; `buffers` leads to `buffer_count` buffers.
 */
ssize_t ms_writev(struct ms_writer *writer,
                  const struct iovec *buffers,
                  int buffer_count);

/**
 * Moves size bytes, or all until the end of the stream, from the pipe to a file, a socket or any other descriptor, without a
 * buffer of the program. Sleeps while the pipe is empty and a writer is left. SSIZE_MAX means all.
 *
 * Returns the number of bytes: size, unless the stream has ended or something came between, as a signal or a full disk; the
 * next call says what. 0 at the end of the stream. Or -1 with errno, if nothing was moved: those of ms_read() and those of
 * writing to the descriptor. What the descriptor does not take still waits in the pipe.
 *
 * Requires:
 * `reader` is null or a handle.
 */
ssize_t ms_copy_to(struct ms_reader *reader,
                   int fd,
                   size_t size);

/**
 * Moves size bytes, or all until its end, from a file, a socket or any other descriptor into the pipe, without a buffer of the
 * program. Sleeps while the pipe is full, and while the descriptor gives nothing. SSIZE_MAX means all.
 *
 * Returns the number of bytes: size, unless the file has ended or something came between; the next call says what. 0 at the
 * end of the file. Or -1 with errno, if nothing was moved: those of ms_write() and those of reading from the descriptor. What
 * the pipe does not take still waits there.
 *
 * Requires:
 * `writer` is null or a handle.
 */
ssize_t ms_copy_from(struct ms_writer *writer,
                     int fd,
                     size_t size);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MILLSTREAM_H */
