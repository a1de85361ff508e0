/* A transform in place: Latin letters moved by 13 places. */
#include "millstream.h"

static uint8_t moved(uint8_t byte, uint8_t first)
{
    return (uint8_t)(byte - first) < 26 ? (uint8_t)(first + (byte - first + 13) % 26) : byte;
}

uint32_t millstream_apply(uint64_t offset, uint8_t *bytes, uint32_t len)
{
    (void)offset;
    for (uint32_t place = 0; place < len; place++)
        bytes[place] = moved(moved(bytes[place], 'a'), 'A');
    return len;
}
