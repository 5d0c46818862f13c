/* Reads the numbers that records are made of; every read is checked against the end.
 *
 * For _speed.c, which makes an object of each record, and _columns.c, which makes columns of all.
 */

#ifndef QUORATE_READER_H
#define QUORATE_READER_H

#include <stdint.h>

typedef struct {
    const unsigned char *at;
    const unsigned char *end;
    const char *why; /* what is wrong, once something is */
} Reader;

static const char CUT_OFF[] = "the last record of a batch is cut off";

/* Returns the next varint as it stands, zigzag not undone; 0 and a reason if there is none. */
static inline uint64_t
read_raw(Reader *reader)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (reader->at >= reader->end) {
            reader->why = CUT_OFF;
            return 0;
        }
        unsigned char byte = *reader->at++;
        if (shift == 63 && byte > 1) {
            reader->why = byte < 0x80 ? "a number of more than 64 bits"
                                      : "a number of more than ten bytes";
            return 0;
        }
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            return value;
        }
    }
    reader->why = "a number of more than ten bytes";
    return 0;
}

static inline int64_t
unzigzag(uint64_t value)
{
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

#endif
