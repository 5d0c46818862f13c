/* Sums up and checks record batches several times faster than Python can.
 *
 * Optional, and only for processors with an instruction for CRC-32C (x86-64 with SSE 4.2): twins
 * are in quorate/records/checksum.py and batch.py, and tests hold both to the same results.
 *
 * Bytes come from strangers: nothing is read beyond what was checked to be there.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

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
        PyObject_GC_UnTrack(header); /* it holds nothing but numbers */
    }
    return header;
}

PyDoc_STRVAR(sound_header_doc,
"sound_header(buffer, pos, kind)\n"
"--\n\n"
"Return the header of the batch at pos as an instance of kind, a named tuple of its fields.\n\n"
"Returns None if there is no whole batch of format v2 with the right checksum.");

static PyObject *
sound_header(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 3 || !PyType_Check(args[2]) ||
        !PyType_IsSubtype((PyTypeObject *)args[2], &PyTuple_Type) ||
        ((PyTypeObject *)args[2])->tp_basicsize != PyTuple_Type.tp_basicsize) {
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

/* ---------------------------------------------------------------- module */

static PyMethodDef methods[] = {
    {"crc32c", crc32c, METH_O, crc32c_doc},
    {"sound_header", (PyCFunction)(void (*)(void))sound_header, METH_FASTCALL, sound_header_doc},
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
