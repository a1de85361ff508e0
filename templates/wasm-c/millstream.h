/*
 * What a WebAssembly module needs to be a transform, `millstream net 'wasm FILE'`. docs/wasm.md explains all of it.
 *
 * Include it in a module of one file, and define
 *   millstream_apply   for a transform that changes bytes where they lie, or
 *   millstream_step    for one that writes other bytes than it reads;
 *   millstream_start   if it takes arguments, millstream_finish if the end of the stream matters to millstream_apply.
 */
#ifndef MILLSTREAM_H
#define MILLSTREAM_H

#include <stddef.h>
#include <stdint.h>

#define MILLSTREAM_EXPORT(name) __attribute__((export_name(#name), used))

/* Arguments: texts one after the other, each with a zero at its end; `bytes` of them together. 0, or anything else for an error. */
MILLSTREAM_EXPORT(millstream_start) int32_t millstream_start(const char *arguments, uint32_t bytes);

/* The next bytes of the stream; `offset` came before them. How many are done: fewer than `len` means that the next is wrong. */
MILLSTREAM_EXPORT(millstream_apply) uint32_t millstream_apply(uint64_t offset, uint8_t *bytes, uint32_t len);

/* The stream has ended. 0, or anything else for an error. */
MILLSTREAM_EXPORT(millstream_finish) int32_t millstream_finish(void);

struct millstream_step {
    const uint8_t *input;
    uint32_t input_len;
    uint8_t *output;
    uint32_t output_room; /* at least 4096 */
    uint32_t ends;        /* no input follows that which is here */
    uint32_t consumed;    /* to be set: bytes of the input that are not needed any more */
    uint32_t produced;    /* to be set: bytes that were written to the output */
};

enum millstream_answer {
    MILLSTREAM_MORE = 0,  /* goes on */
    MILLSTREAM_DONE = 1,  /* the output is complete, whatever input follows */
    MILLSTREAM_FAULT = 2, /* the byte of the input after those consumed is wrong */
};

/* Reads and writes some bytes. When `ends` is set it is called until it says MILLSTREAM_DONE. */
MILLSTREAM_EXPORT(millstream_step) int32_t millstream_step(struct millstream_step *step);

/* What is wrong, before an error is returned. */
static const char *millstream_said;

static inline void millstream_say(const char *what)
{
    millstream_said = what;
}

MILLSTREAM_EXPORT(millstream_message) const char *millstream_message(void)
{
    return millstream_said;
}

MILLSTREAM_EXPORT(millstream_abi) int32_t millstream_abi(void)
{
    return 1;
}

/* Memory that is never given back, behind all that the module has. 0 if there is no more. */
MILLSTREAM_EXPORT(millstream_allocate) void *millstream_allocate(uint32_t bytes)
{
    extern uint8_t __heap_base;
    static uintptr_t end;
    uintptr_t at = ((end ? end : (uintptr_t)&__heap_base) + 7) & ~(uintptr_t)7;
    uintptr_t size = __builtin_wasm_memory_size(0) << 16;
    if (at + bytes > size) {
        if (__builtin_wasm_memory_grow(0, (at + bytes - size + 65535) >> 16) == (size_t)-1)
            return 0;
    }
    end = at + bytes;
    return (void *)at;
}

#endif
