/* A transform that writes other bytes than it reads: the bytes that pairs of hexadecimal digits stand for. */
#include "millstream.h"

static int value(uint8_t digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if ((digit | 32) >= 'a' && (digit | 32) <= 'f')
        return (digit | 32) - 'a' + 10;
    return -1;
}

static int is_space(uint8_t byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r' || byte == '\f';
}

/* The first digit of a pair whose second has not come yet: what a module keeps from call to call. */
static int first = -1;

int32_t millstream_step(struct millstream_step *step)
{
    while (step->consumed < step->input_len && step->produced < step->output_room) {
        uint8_t byte = step->input[step->consumed];
        int digit = value(byte);
        if (digit < 0 && !is_space(byte)) {
            millstream_say("this is no hexadecimal digit");
            return MILLSTREAM_FAULT;
        }
        if (digit >= 0 && first < 0) {
            first = digit;
        } else if (digit >= 0) {
            step->output[step->produced++] = (uint8_t)(first << 4 | digit);
            first = -1;
        }
        step->consumed++;
    }
    if (!step->ends || step->consumed < step->input_len)
        return MILLSTREAM_MORE;
    if (first >= 0) {
        millstream_say("the last digit has no partner");
        return MILLSTREAM_FAULT;
    }
    return MILLSTREAM_DONE;
}
