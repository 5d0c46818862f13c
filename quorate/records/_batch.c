/* Sums up and checks record batches several times faster than Python can, and reads the commonest
 * Produce request.
 *
 * Optional, and only for processors with an instruction for CRC-32C (x86-64 with SSE 4.2): twins
 * are in quorate/records/checksum.py, batch.py and quorate/protocol/single_produce.py, and tests
 * hold both to the same results.
 *
 * Bytes come from strangers: nothing is read beyond what was checked to be there.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#include "_tuples.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))

#include <nmmintrin.h>

#define WITH_CRC_INSTRUCTION __attribute__((target("sse4.2")))

/* ---------------------------------------------------------------- CRC-32C */

/* The instruction takes three cycles, and one can begin every cycle: long buffers are summed up as
 * three blocks side by side, whose sums are put together by tables. */
enum { LONG_BLOCK = 4096, SHORT_BLOCK = 256 };

/* What a checksum becomes by a block of zeros behind it, for each value of each of its bytes. */
typedef struct {
    uint32_t by_byte[4][256];
} Shift;

static Shift over_long_block, over_short_block;

static uint64_t
load(const unsigned char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

WITH_CRC_INSTRUCTION static void
make_shift(Shift *shift, int zeros_bytes)
{
    memset(shift, 0, sizeof *shift);
    for (int bit = 0; bit < 32; bit++) {
        uint64_t moved = UINT64_C(1) << bit;
        for (int i = 0; i < zeros_bytes; i += 8) {
            moved = _mm_crc32_u64(moved, 0);
        }
        for (int value = 0; value < 256; value++) {
            if (value >> bit % 8 & 1) {
                shift->by_byte[bit / 8][value] ^= (uint32_t)moved;
            }
        }
    }
}

static uint64_t
shifted(const Shift *shift, uint64_t crc)
{
    return shift->by_byte[0][crc & 0xFF] ^ shift->by_byte[1][crc >> 8 & 0xFF] ^
           shift->by_byte[2][crc >> 16 & 0xFF] ^ shift->by_byte[3][crc >> 24 & 0xFF];
}

/* Sums up as many triples of blocks as there are, and moves `at` behind them. */
WITH_CRC_INSTRUCTION static uint64_t
sum_of_triples(uint64_t crc, const unsigned char **at, const unsigned char *end, int block,
               const Shift *shift)
{
    while (end - *at >= 3 * block) {
        uint64_t second = 0, third = 0;
        const unsigned char *stop = *at + block;
        for (; *at < stop; *at += 8) {
            crc = _mm_crc32_u64(crc, load(*at));
            second = _mm_crc32_u64(second, load(*at + block));
            third = _mm_crc32_u64(third, load(*at + 2 * block));
        }
        crc = shifted(shift, shifted(shift, crc) ^ second) ^ third;
        *at += 2 * block;
    }
    return crc;
}

WITH_CRC_INSTRUCTION static uint32_t
sum_of(const unsigned char *at, Py_ssize_t size)
{
    const unsigned char *end = at + size;
    uint64_t crc = 0xFFFFFFFF;
    crc = sum_of_triples(crc, &at, end, LONG_BLOCK, &over_long_block);
    crc = sum_of_triples(crc, &at, end, SHORT_BLOCK, &over_short_block);
    for (; end - at >= 8; at += 8) {
        crc = _mm_crc32_u64(crc, load(at));
    }
    for (; at < end; at++) {
        crc = _mm_crc32_u8((uint32_t)crc, *at);
    }
    return ~(uint32_t)crc;
}

PyDoc_STRVAR(crc32c_doc,
"crc32c(buffer)\n"
"--\n\n"
"Return the CRC-32C of the buffer as an unsigned 32-bit number.");

static PyObject *
crc32c(PyObject *module, PyObject *buffer)
{
    Py_buffer view;
    if (PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    uint32_t checksum = sum_of(view.buf, view.len);
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(checksum);
}

/* ---------------------------------------------------------------- batches */

/* The layout is described in quorate/records/batch.py. */
enum {
    HEADER_BYTES = 61,
    HEADER_FIELDS = 13,
    LOG_OVERHEAD_BYTES = 12,
    LEADER_EPOCH_AT = 12,
    MAGIC_AT = 16,
    MAGIC = 2,
    CRC_AT = 17,
    CRC_COVERS_FROM = 21,
    LAST_OFFSET_DELTA_AT = 23,
    RECORD_COUNT_AT = 57
};

static const int FIELD_BYTES[HEADER_FIELDS] = {8, 4, 4, 1, -4, 2, 4, 8, 8, 8, 2, 4, 4};
/* Negative: unsigned. */

static uint64_t
read_big_endian(const unsigned char *at, int size)
{
    uint64_t value = 0;
    for (int i = 0; i < size; i++) {
        value = value << 8 | at[i];
    }
    return value;
}

static int64_t
read_signed(const unsigned char *at, int size)
{
    int unused = 64 - 8 * size;
    return (int64_t)(read_big_endian(at, size) << unused) >> unused;
}

/* Whether a whole batch with the right checksum begins there. */
static int
is_sound(const unsigned char *batch, Py_ssize_t available)
{
    if (available < HEADER_BYTES || batch[MAGIC_AT] != MAGIC) {
        return 0;
    }
    int64_t size = read_signed(batch + 8, 4) + LOG_OVERHEAD_BYTES;
    return size >= HEADER_BYTES && size <= available &&
           read_signed(batch + LAST_OFFSET_DELTA_AT, 4) >= 0 &&
           read_signed(batch + RECORD_COUNT_AT, 4) >= 0 &&
           sum_of(batch + CRC_COVERS_FROM, size - CRC_COVERS_FROM) ==
               read_big_endian(batch + CRC_AT, 4);
}

static PyObject *
make_header(PyTypeObject *kind, const unsigned char *at)
{
    PyObject *header = kind->tp_alloc(kind, HEADER_FIELDS);
    for (int i = 0; header != NULL && i < HEADER_FIELDS; i++) {
        int size = FIELD_BYTES[i];
        PyObject *field = size < 0 ? PyLong_FromUnsignedLongLong(read_big_endian(at, -size))
                                   : PyLong_FromLongLong(read_signed(at, size));
        if (field == NULL) {
            Py_CLEAR(header);
            break;
        }
        PyTuple_SET_ITEM(header, i, field);
        at += abs(size);
    }
    if (header != NULL) {
        forget_hash(header);
        PyObject_GC_UnTrack(header); /* it holds nothing but numbers */
    }
    return header;
}

/* Whether that can be made by make_header. */
static int
is_kind(PyObject *kind)
{
    return PyType_Check(kind) && PyType_IsSubtype((PyTypeObject *)kind, &PyTuple_Type) &&
           ((PyTypeObject *)kind)->tp_basicsize == PyTuple_Type.tp_basicsize;
}

PyDoc_STRVAR(sound_header_doc,
"sound_header(buffer, pos, kind)\n"
"--\n\n"
"Return the header of the batch at pos as an instance of kind, a named tuple of its fields.\n\n"
"Returns None if there is no whole batch of format v2 with the right checksum.");

static PyObject *
sound_header(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 3 || !is_kind(args[2])) {
        PyErr_SetString(PyExc_TypeError, "sound_header(buffer, pos, kind), kind a named tuple");
        return NULL;
    }
    Py_ssize_t pos = PyLong_AsSsize_t(args[1]);
    if (pos == -1 && PyErr_Occurred()) {
        return NULL;
    }
    Py_buffer view;
    if (PyObject_GetBuffer(args[0], &view, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    PyObject *header;
    const unsigned char *batch = (const unsigned char *)view.buf + pos;
    if (pos >= 0 && pos <= view.len && is_sound(batch, view.len - pos)) {
        header = make_header((PyTypeObject *)args[2], batch);
    } else {
        header = Py_NewRef(Py_None);
    }
    PyBuffer_Release(&view);
    return header;
}

static void
write_big_endian(unsigned char *at, int size, uint64_t value)
{
    for (int i = size - 1; i >= 0; i--) {
        at[i] = (unsigned char)value;
        value >>= 8;
    }
}

PyDoc_STRVAR(assign_offset_doc,
"assign_offset(buffer, pos, offset, leader_epoch)\n"
"--\n\n"
"Write the base offset and the leader epoch into the batch at pos.");

static PyObject *
assign_offset(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 4) {
        PyErr_SetString(PyExc_TypeError, "assign_offset(buffer, pos, offset, leader_epoch)");
        return NULL;
    }
    Py_ssize_t pos = PyLong_AsSsize_t(args[1]);
    long long offset = PyLong_AsLongLong(args[2]);
    long epoch = PyLong_AsLong(args[3]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_buffer view;
    if (PyObject_GetBuffer(args[0], &view, PyBUF_WRITABLE) < 0) {
        return NULL;
    }
    int fits = 0 <= pos && pos <= view.len && view.len - pos >= HEADER_BYTES &&
               (int32_t)epoch == epoch;
    if (fits) {
        unsigned char *batch = (unsigned char *)view.buf + pos;
        write_big_endian(batch, 8, (uint64_t)offset);
        write_big_endian(batch + LEADER_EPOCH_AT, 4, (uint64_t)epoch);
    } else {
        PyErr_SetString(PyExc_ValueError, "there is no batch, or no such epoch");
    }
    PyBuffer_Release(&view);
    return fits ? Py_NewRef(Py_None) : NULL;
}

/* ---------------------------------------------------------------- Produce requests */

/* What is read is described in quorate/protocol/single_produce.py. */
enum {
    PRODUCE_KEY = 0,
    VERSION_MIN = 7,
    FLEXIBLE_FROM = 9,
    TOPIC_IDS_FROM = 13,
    VERSION_MAX = 13,
    UUID_BYTES = 16,
    UVARINT_BYTES_MAX = 5,
    TAGS_BYTES = 3
};

/* Where in a request we are. Once something does not fit, nothing is read any more. */
typedef struct {
    const unsigned char *at;
    const unsigned char *end;
    int fits;
} Cursor;

/* Returns where so many bytes begin, and goes on behind them; NULL if there are not so many. */
static const unsigned char *
take(Cursor *cursor, int64_t size)
{
    const unsigned char *at = cursor->at;
    if (!cursor->fits || size < 0 || size > cursor->end - at) {
        cursor->fits = 0;
        return NULL;
    }
    cursor->at += size;
    return at;
}

/* Returns a signed number; 0 if it does not fit. */
static int64_t
take_signed(Cursor *cursor, int size)
{
    const unsigned char *at = take(cursor, size);
    return at == NULL ? 0 : read_signed(at, size);
}

static void
expect(Cursor *cursor, int holds)
{
    cursor->fits &= holds;
}

static int64_t
take_uvarint(Cursor *cursor)
{
    int64_t value = 0;
    for (int i = 0; i < UVARINT_BYTES_MAX; i++) {
        const unsigned char *at = take(cursor, 1);
        if (at == NULL) {
            return 0;
        }
        value |= (int64_t)(*at & 0x7F) << 7 * i;
        if (*at < 0x80) {
            return value;
        }
    }
    cursor->fits = 0;
    return 0;
}

/* A request for one partition; pointers into its bytes. */
typedef struct {
    int64_t version, correlation_id, acks, timeout_ms, partition, topic_bytes, records_bytes;
    const unsigned char *echo, *echo_end, *topic, *records;
} Single;

/* Reads the part from the transactional id to the size of the records, versions 7 and 8. */
static void
take_plain(Cursor *cursor, Single *single)
{
    expect(cursor, take_signed(cursor, 2) == -1); /* no transactional id */
    single->acks = take_signed(cursor, 2);
    single->timeout_ms = take_signed(cursor, 4);
    single->echo = cursor->at;
    expect(cursor, take_signed(cursor, 4) == 1); /* topics */
    single->topic_bytes = take_signed(cursor, 2);
    single->topic = take(cursor, single->topic_bytes);
    expect(cursor, take_signed(cursor, 4) == 1); /* partitions */
    single->partition = take_signed(cursor, 4);
    single->echo_end = cursor->at;
    single->records_bytes = take_signed(cursor, 4);
}

/* The same, from version 9 on: sizes are one more than they are, because 0 is null. */
static void
take_flexible(Cursor *cursor, Single *single)
{
    expect(cursor, take_signed(cursor, 1) == 0);
    single->acks = take_signed(cursor, 2);
    single->timeout_ms = take_signed(cursor, 4);
    single->echo = cursor->at;
    expect(cursor, take_signed(cursor, 1) == 2);
    if (single->version >= TOPIC_IDS_FROM) {
        single->topic_bytes = UUID_BYTES;
    } else {
        int64_t length = take_signed(cursor, 1); /* negative: of more than one byte */
        expect(cursor, length > 0);
        single->topic_bytes = length - 1;
    }
    single->topic = take(cursor, single->topic_bytes);
    expect(cursor, take_signed(cursor, 1) == 2);
    single->partition = take_signed(cursor, 4);
    single->echo_end = cursor->at;
    single->records_bytes = take_uvarint(cursor) - 1;
}

/* Returns whether that is the commonest request, with one sound batch. */
static int
take_single(Cursor *cursor, Single *single)
{
    if (take_signed(cursor, 2) != PRODUCE_KEY) {
        return 0;
    }
    single->version = take_signed(cursor, 2);
    single->correlation_id = take_signed(cursor, 4);
    int64_t id_bytes = take_signed(cursor, 2);
    take(cursor, id_bytes == -1 ? 0 : id_bytes);
    if (!cursor->fits || single->version < VERSION_MIN || single->version > VERSION_MAX) {
        return 0;
    }
    int tags_bytes = 0;
    if (single->version < FLEXIBLE_FROM) {
        take_plain(cursor, single);
    } else {
        expect(cursor, take_signed(cursor, 1) == 0); /* no tags in the header */
        take_flexible(cursor, single);
        tags_bytes = TAGS_BYTES;
    }
    single->records = take(cursor, single->records_bytes);
    for (int i = 0; i < tags_bytes; i++) {
        expect(cursor, take_signed(cursor, 1) == 0);
    }
    return cursor->fits && cursor->at == cursor->end &&
           is_sound(single->records, single->records_bytes) &&
           read_signed(single->records + 8, 4) + LOG_OVERHEAD_BYTES == single->records_bytes;
}

/* Returns what was read as a tuple; None if the topic is no text. */
static PyObject *
make_single(const Single *single, Py_ssize_t records_at, PyTypeObject *kind)
{
    const char *topic = (const char *)single->topic, *echo = (const char *)single->echo;
    PyObject *name = single->version < TOPIC_IDS_FROM
                         ? PyUnicode_DecodeUTF8(topic, single->topic_bytes, NULL)
                         : PyBytes_FromStringAndSize(topic, single->topic_bytes);
    if (name == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
            return NULL;
        }
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    PyObject *echoed = PyBytes_FromStringAndSize(echo, single->echo_end - single->echo);
    PyObject *header = make_header(kind, single->records);
    if (echoed == NULL || header == NULL) {
        Py_DECREF(name);
        Py_XDECREF(echoed);
        Py_XDECREF(header);
        return NULL;
    }
    return Py_BuildValue("LLLLNLNnnN", (long long)single->version,
                         (long long)single->correlation_id, (long long)single->acks,
                         (long long)single->timeout_ms, name, (long long)single->partition,
                         echoed, records_at, records_at + (Py_ssize_t)single->records_bytes,
                         header);
}

PyDoc_STRVAR(sound_produce_doc,
"sound_produce(kind, buffer, start, end)\n"
"--\n\n"
"Return what the request in buffer[start:end] says if it is a Produce request for one partition.\n\n"
"See quorate.protocol.single_produce. Returns None if it is anything else, or its batch is not\n"
"sound. kind is a named tuple of a batch header's fields.");

static PyObject *
sound_produce(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 4 || !is_kind(args[0])) {
        PyErr_SetString(PyExc_TypeError,
                        "sound_produce(kind, buffer, start, end), kind a named tuple");
        return NULL;
    }
    Py_ssize_t start = PyLong_AsSsize_t(args[2]);
    if (start == -1 && PyErr_Occurred()) {
        return NULL;
    }
    Py_ssize_t end = PyLong_AsSsize_t(args[3]);
    if (end == -1 && PyErr_Occurred()) {
        return NULL;
    }
    Py_buffer view;
    if (PyObject_GetBuffer(args[1], &view, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    const unsigned char *bytes = view.buf;
    PyObject *read = NULL;
    if (0 <= start && start <= end && end <= view.len) {
        Cursor cursor = {bytes + start, bytes + end, 1};
        Single single;
        if (take_single(&cursor, &single)) {
            read = make_single(&single, single.records - bytes, (PyTypeObject *)args[0]);
        } else {
            read = Py_NewRef(Py_None);
        }
    } else {
        read = Py_NewRef(Py_None);
    }
    PyBuffer_Release(&view);
    return read;
}

PyDoc_STRVAR(single_answer_doc,
"single_answer(tags, ending, correlation_id, echo, base_offset, append_time, log_start_offset)\n"
"--\n\n"
"Return the answer to a Produce request for one partition, as a frame.\n\n"
"tags stand behind the correlation id, and ending behind the offsets: both are bytes. echo is what\n"
"an answer has in common with its request.");

static PyObject *
single_answer(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 7 || !PyBytes_Check(args[0]) || !PyBytes_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError,
                        "single_answer(tags, ending, correlation_id, echo, base_offset,"
                        " append_time, log_start_offset), tags and ending bytes");
        return NULL;
    }
    long correlation_id = PyLong_AsLong(args[2]);
    int64_t numbers[3];
    for (int i = 0; i < 3; i++) {
        numbers[i] = PyLong_AsLongLong(args[4 + i]);
    }
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_buffer echo;
    if (PyObject_GetBuffer(args[3], &echo, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    Py_ssize_t tags_bytes = PyBytes_GET_SIZE(args[0]), ending_bytes = PyBytes_GET_SIZE(args[1]);
    Py_ssize_t size = 8 + tags_bytes + echo.len + 2 + 3 * 8 + ending_bytes;
    PyObject *frame = PyBytes_FromStringAndSize(NULL, size);
    if (frame != NULL) {
        unsigned char *at = (unsigned char *)PyBytes_AS_STRING(frame);
        write_big_endian(at, 4, (uint64_t)size - 4);
        write_big_endian(at + 4, 4, (uint64_t)correlation_id);
        memcpy(at + 8, PyBytes_AS_STRING(args[0]), tags_bytes);
        at += 8 + tags_bytes;
        memcpy(at, echo.buf, echo.len);
        write_big_endian(at += echo.len, 2, 0); /* no error */
        at += 2;
        for (int i = 0; i < 3; i++, at += 8) {
            write_big_endian(at, 8, (uint64_t)numbers[i]);
        }
        memcpy(at, PyBytes_AS_STRING(args[1]), ending_bytes);
    }
    PyBuffer_Release(&echo);
    return frame;
}

/* ---------------------------------------------------------------- module */

static PyMethodDef methods[] = {
    {"crc32c", crc32c, METH_O, crc32c_doc},
    {"sound_header", (PyCFunction)(void (*)(void))sound_header, METH_FASTCALL, sound_header_doc},
    {"assign_offset", (PyCFunction)(void (*)(void))assign_offset, METH_FASTCALL,
     assign_offset_doc},
    {"single_answer", (PyCFunction)(void (*)(void))single_answer, METH_FASTCALL,
     single_answer_doc},
    {"sound_produce", (PyCFunction)(void (*)(void))sound_produce, METH_FASTCALL,
     sound_produce_doc},
    {NULL, NULL, 0, NULL},
};

static int
prepare(PyObject *module)
{
    if (!__builtin_cpu_supports("sse4.2")) {
        PyErr_SetString(PyExc_ImportError, "this processor has no instruction for CRC-32C");
        return -1;
    }
    make_shift(&over_long_block, LONG_BLOCK);
    make_shift(&over_short_block, SHORT_BLOCK);
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, prepare},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_batch",
    .m_doc = "Record batches, summed up and checked by compiled code.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__batch(void)
{
    return PyModuleDef_Init(&definition);
}

#else
#error "quorate/records/_batch.c is for x86-64 only; elsewhere its twins in Python do the work"
#endif
