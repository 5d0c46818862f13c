/* Makes columns as Apache Arrow has them of the records of many batches, without an object a record.
 *
 * Optional: the twins are in client/spark/decode.py, one by numpy and one record by record, and
 * tests hold all to the same columns. What is wrong with bytes that are no records is for a twin
 * to say: here it is only noticed.
 *
 * Bytes come from strangers. All records are gone through twice: first every length is checked,
 * and what they need is summed up; then as much is allocated and filled.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "_reader.h"

enum { KEY = 1, VALUE = 2, OFFSET = 4, TIMESTAMP = 8, TIMESTAMP_TYPE = 16, HEADERS = 32 };

static const int64_t TIMESTAMP_MS_MAX = INT64_MAX / 1000;

typedef struct {
    const unsigned char *at; /* NULL for null */
    Py_ssize_t size;
} Text;

typedef struct {
    int64_t timestamp_delta, offset_delta;
    Text key, value;
    Reader headers;
    Py_ssize_t header_count;
} Row;

/* One batch, and what its records have in common. */
typedef struct {
    Py_ssize_t at, end, count;
    int64_t base_offset, base_timestamp_ms;
    int64_t stamp_ms;
    int is_stamped; /* by the broker: all have the timestamp stamp_ms */
} Batch;

/* ---------------------------------------------------------------- reading */

/* Reads a length, -1 for null, and steps over as many bytes; 0 if that is not possible. */
static inline int
read_text(Reader *reader, Text *text)
{
    uint64_t raw = read_raw(reader);
    if (reader->why != NULL) {
        return 0;
    }
    if (raw & 1) {
        *text = (Text){NULL, 0};
        return raw == 1;
    }
    uint64_t size = raw >> 1;
    if (size > (uint64_t)(reader->end - reader->at)) {
        return 0;
    }
    *text = (Text){reader->at, (Py_ssize_t)size};
    reader->at += size;
    return 1;
}

static int
is_utf8(const Text *text)
{
    Py_ssize_t i = 0;
    while (i < text->size && text->at[i] < 0x80) {
        i++;
    }
    if (i == text->size) {
        return 1;
    }
    PyObject *decoded = PyUnicode_DecodeUTF8((const char *)text->at, text->size, NULL);
    if (decoded == NULL) {
        PyErr_Clear();
        return 0;
    }
    Py_DECREF(decoded);
    return 1;
}

static inline int
read_header(Reader *reader, Text *name, Text *value)
{
    return read_text(reader, name) && name->at != NULL && read_text(reader, value);
}

/* Reads a record up to its headers, which are left to others; 0 if there is none. */
static inline int
read_row(Reader *reader, Row *row)
{
    uint64_t raw = read_raw(reader);
    uint64_t size = raw >> 1;
    if (reader->why != NULL || raw & 1 || size == 0 ||
        size > (uint64_t)(reader->end - reader->at)) {
        return 0;
    }
    Reader inner = {reader->at + 1, reader->at + size, NULL}; /* behind the attributes */
    reader->at += size;
    row->timestamp_delta = unzigzag(read_raw(&inner));
    row->offset_delta = unzigzag(read_raw(&inner));
    if (inner.why != NULL || !read_text(&inner, &row->key) || !read_text(&inner, &row->value)) {
        return 0;
    }
    raw = read_raw(&inner);
    /* Twice the count; a header takes two bytes at least. */
    if (inner.why != NULL || raw & 1 || raw > (uint64_t)(inner.end - inner.at)) {
        return 0;
    }
    row->header_count = (Py_ssize_t)(raw >> 1);
    row->headers = inner;
    return row->header_count > 0 || inner.at == inner.end;
}

/* Returns a + b modulo 2^64, as Java reckons: strangers may make it overflow. */
static inline int64_t
sum_of(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t
micros_of(const Batch *batch, const Row *row)
{
    int64_t ms = batch->is_stamped ? batch->stamp_ms
                                   : sum_of(batch->base_timestamp_ms, row->timestamp_delta);
    if (ms > TIMESTAMP_MS_MAX) {
        ms = TIMESTAMP_MS_MAX;
    }
    return (ms < -TIMESTAMP_MS_MAX ? -TIMESTAMP_MS_MAX : ms) * 1000;
}

/* ---------------------------------------------------------------- columns */

/* A column of bytes: Arrow's three buffers. */
typedef struct {
    Py_ssize_t rows, bytes, nulls; /* what was counted */
    PyObject *validity, *positions, *data;
    unsigned char *bits;
    int32_t *ends;
    char *to;
    Py_ssize_t row, filled;
} Texts;

static inline void
count_text(Texts *texts, const Text *text)
{
    texts->rows++;
    texts->bytes += text->size;
    texts->nulls += text->at == NULL;
}

/* Returns a bitmap of zeros. */
static PyObject *
no_bits(Py_ssize_t rows)
{
    PyObject *bits = PyBytes_FromStringAndSize(NULL, (rows + 7) / 8);
    if (bits != NULL) {
        memset(PyBytes_AS_STRING(bits), 0, (size_t)PyBytes_GET_SIZE(bits));
    }
    return bits;
}

/* Allocates what was counted; 0 if that did not work. */
static int
allocate_texts(Texts *texts)
{
    texts->positions = PyBytes_FromStringAndSize(NULL, (texts->rows + 1) * 4);
    texts->data = PyBytes_FromStringAndSize(NULL, texts->bytes);
    texts->validity = texts->nulls ? no_bits(texts->rows) : Py_NewRef(Py_None);
    if (texts->positions == NULL || texts->data == NULL || texts->validity == NULL) {
        return 0;
    }
    texts->ends = (int32_t *)PyBytes_AS_STRING(texts->positions);
    *texts->ends++ = 0;
    texts->to = PyBytes_AS_STRING(texts->data);
    texts->bits = texts->nulls ? (unsigned char *)PyBytes_AS_STRING(texts->validity) : NULL;
    return 1;
}

static inline void
put_text(Texts *texts, const Text *text)
{
    if (text->at != NULL) {
        memcpy(texts->to + texts->filled, text->at, (size_t)text->size);
        texts->filled += text->size;
        if (texts->bits != NULL) {
            texts->bits[texts->row >> 3] |= (unsigned char)(1 << (texts->row & 7));
        }
    }
    texts->ends[texts->row++] = (int32_t)texts->filled;
}

static void
clear_texts(Texts *texts)
{
    Py_CLEAR(texts->validity);
    Py_CLEAR(texts->positions);
    Py_CLEAR(texts->data);
}

static PyObject *
buffers_of(const Texts *texts)
{
    return PyTuple_Pack(3, texts->validity, texts->positions, texts->data);
}

/* All that is made of some batches. */
typedef struct {
    const unsigned char *data;
    Batch *batches;
    Py_ssize_t batch_count;
    int64_t start, end; /* offsets */
    int wanted;

    Py_ssize_t rows;
    Texts keys, values, names, header_values;
    PyObject *offsets, *timestamps, *types, *lists, *lists_validity;
} Columns;

/* Goes through the records of all batches, and counts what is wanted; 0 if they are no records, or
 * the name of a header is no UTF-8, of which the twin replaces what must be. */
static int
count_all(Columns *all)
{
    for (Py_ssize_t i = 0; i < all->batch_count; i++) {
        const Batch *batch = &all->batches[i];
        Reader reader = {all->data + batch->at, all->data + batch->end, NULL};
        for (Py_ssize_t j = 0; j < batch->count; j++) {
            Row row;
            if (!read_row(&reader, &row)) {
                return 0;
            }
            int64_t offset = sum_of(batch->base_offset, row.offset_delta);
            int is_wanted = offset >= all->start && offset < all->end;
            for (Py_ssize_t k = 0; k < row.header_count; k++) {
                Text name, value;
                if (!read_header(&row.headers, &name, &value) || !is_utf8(&name)) {
                    return 0;
                }
                if (is_wanted && all->wanted & HEADERS) {
                    count_text(&all->names, &name);
                    count_text(&all->header_values, &value);
                }
            }
            if (row.headers.at != row.headers.end) {
                return 0;
            }
            if (is_wanted) {
                all->rows++;
                count_text(&all->keys, &row.key);
                count_text(&all->values, &row.value);
            }
        }
        if (reader.at != reader.end) {
            return 0;
        }
    }
    return 1;
}

/* Allocates a buffer if its column is wanted: None otherwise, NULL if that did not work. */
static PyObject *
allocate(const Columns *all, int column, Py_ssize_t size)
{
    return all->wanted & column ? PyBytes_FromStringAndSize(NULL, size) : Py_NewRef(Py_None);
}

static int
allocate_all(Columns *all)
{
    all->offsets = allocate(all, OFFSET, all->rows * 8);
    all->timestamps = allocate(all, TIMESTAMP, all->rows * 8);
    all->types = allocate(all, TIMESTAMP_TYPE, all->rows * 4);
    all->lists = allocate(all, HEADERS, (all->rows + 1) * 4);
    all->lists_validity = all->wanted & HEADERS ? no_bits(all->rows) : Py_NewRef(Py_None);
    return all->offsets && all->timestamps && all->types && all->lists && all->lists_validity &&
           (!(all->wanted & KEY) || allocate_texts(&all->keys)) &&
           (!(all->wanted & VALUE) || allocate_texts(&all->values)) &&
           (!(all->wanted & HEADERS) ||
            (allocate_texts(&all->names) && allocate_texts(&all->header_values)));
}

static int
put_headers(Columns *all, Row *row, Py_ssize_t index)
{
    int32_t *ends = (int32_t *)PyBytes_AS_STRING(all->lists);
    for (Py_ssize_t i = 0; i < row->header_count; i++) {
        Text name, value;
        if (!read_header(&row->headers, &name, &value)) {
            return 0;
        }
        put_text(&all->names, &name);
        put_text(&all->header_values, &value);
    }
    if (row->header_count > 0) { /* as Spark's own source has it: no headers are null */
        PyBytes_AS_STRING(all->lists_validity)[index >> 3] |= (char)(1 << (index & 7));
    }
    ends[index + 1] = (int32_t)all->names.row;
    return 1;
}

/* Does what count_all() did once more, and fills what was allocated. No Python code has run
 * between, and who has lent the data promised not to change them; see read_columns(). */
static int
fill_all(Columns *all)
{
    int wanted = all->wanted;
    Py_ssize_t index = 0;
    int64_t *offsets = wanted & OFFSET ? (int64_t *)PyBytes_AS_STRING(all->offsets) : NULL;
    int64_t *timestamps =
        wanted & TIMESTAMP ? (int64_t *)PyBytes_AS_STRING(all->timestamps) : NULL;
    int32_t *types = wanted & TIMESTAMP_TYPE ? (int32_t *)PyBytes_AS_STRING(all->types) : NULL;
    if (wanted & HEADERS) {
        *(int32_t *)PyBytes_AS_STRING(all->lists) = 0;
    }
    for (Py_ssize_t i = 0; i < all->batch_count; i++) {
        const Batch *batch = &all->batches[i];
        Reader reader = {all->data + batch->at, all->data + batch->end, NULL};
        for (Py_ssize_t j = 0; j < batch->count; j++) {
            Row row;
            if (!read_row(&reader, &row)) {
                return 0;
            }
            int64_t offset = sum_of(batch->base_offset, row.offset_delta);
            if (offset < all->start || offset >= all->end) {
                continue;
            }
            if (offsets != NULL) {
                offsets[index] = offset;
            }
            if (timestamps != NULL) {
                timestamps[index] = micros_of(batch, &row);
            }
            if (types != NULL) {
                types[index] = batch->is_stamped;
            }
            if (wanted & KEY) {
                put_text(&all->keys, &row.key);
            }
            if (wanted & VALUE) {
                put_text(&all->values, &row.value);
            }
            if (wanted & HEADERS && !put_headers(all, &row, index)) {
                return 0;
            }
            index++;
        }
    }
    return 1;
}

/* Returns buffers, or None for a column that is not wanted. */
static PyObject *
buffers_if(const Columns *all, int column, const Texts *texts)
{
    return all->wanted & column ? buffers_of(texts) : Py_NewRef(Py_None);
}

static PyObject *
headers_of(const Columns *all)
{
    if (!(all->wanted & HEADERS)) {
        Py_RETURN_NONE;
    }
    PyObject *names = buffers_of(&all->names), *values = buffers_of(&all->header_values);
    PyObject *headers = NULL;
    if (names != NULL && values != NULL) {
        headers = Py_BuildValue("nOOOO", all->names.row, all->lists_validity, all->lists, names,
                                values);
    }
    Py_XDECREF(names);
    Py_XDECREF(values);
    return headers;
}

static PyObject *
result_of(const Columns *all)
{
    PyObject *keys = buffers_if(all, KEY, &all->keys);
    PyObject *values = buffers_if(all, VALUE, &all->values);
    PyObject *headers = headers_of(all);
    PyObject *result = NULL;
    if (keys != NULL && values != NULL && headers != NULL) {
        result = Py_BuildValue("nOOOOOO", all->rows, keys, values, all->offsets, all->timestamps,
                               all->types, headers);
    }
    Py_XDECREF(keys);
    Py_XDECREF(values);
    Py_XDECREF(headers);
    return result;
}

static PyObject *
made_of(Columns *all)
{
    PyObject *result = NULL;
    if (!count_all(all)) {
        result = Py_NewRef(Py_None);
    }
    else if (allocate_all(all)) {
        result = fill_all(all) ? result_of(all) : Py_NewRef(Py_None);
    }
    clear_texts(&all->keys);
    clear_texts(&all->values);
    clear_texts(&all->names);
    clear_texts(&all->header_values);
    Py_CLEAR(all->offsets);
    Py_CLEAR(all->timestamps);
    Py_CLEAR(all->types);
    Py_CLEAR(all->lists);
    Py_CLEAR(all->lists_validity);
    return result;
}

/* ---------------------------------------------------------------- the function */

/* Reads where a batch is and what it is; 0 with an exception if that is not within the data. */
static int
take_batch(PyObject *item, Py_ssize_t data_bytes, Batch *batch)
{
    long long base_offset, base_timestamp_ms;
    PyObject *stamp_ms;
    if (!PyTuple_Check(item)) {
        PyErr_SetString(PyExc_TypeError, "a batch must be a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(item, "nnnLLO", &batch->at, &batch->end, &batch->count, &base_offset,
                          &base_timestamp_ms, &stamp_ms)) {
        return 0;
    }
    batch->base_offset = base_offset;
    batch->base_timestamp_ms = base_timestamp_ms;
    batch->is_stamped = stamp_ms != Py_None;
    batch->stamp_ms = batch->is_stamped ? PyLong_AsLongLong(stamp_ms) : 0;
    if (PyErr_Occurred()) {
        return 0;
    }
    if (batch->at < 0 || batch->end < batch->at || batch->end > data_bytes || batch->count < 0) {
        PyErr_SetString(PyExc_ValueError, "positions outside of the data");
        return 0;
    }
    return 1;
}

PyDoc_STRVAR(read_columns_doc,
"read_columns(data, batches, start, end, wanted)\n"
"--\n\n"
"Return columns of the records whose offsets are from start to end, without the latter.\n\n"
"batches are tuples (at, end, record_count, base_offset, base_timestamp_ms, stamp_ms) about\n"
"data[at:end], not compressed; stamp_ms is the timestamp of all records, or None. wanted is a sum:\n"
"1 keys, 2 values, 4 offsets, 8 timestamps, 16 kinds of timestamps, 32 headers.\n\n"
"The result is (count, keys, values, offsets, timestamps in microseconds, kinds, headers), where\n"
"keys and values are (validity or None, positions, bytes), headers are (count, validity,\n"
"positions, names, values), and the others buffers of numbers; None for what is not wanted.\n"
"It is None if these are not as many records and nothing else, or more than positions of 32 bits\n"
"can tell. Nobody may change the data meanwhile.");

static PyObject *
read_columns(PyObject *module, PyObject *args)
{
    Py_buffer data;
    PyObject *batches;
    long long start, end;
    Columns all = {0};
    if (!PyArg_ParseTuple(args, "y*O!LLi", &data, &PyList_Type, &batches, &start, &end,
                          &all.wanted)) {
        return NULL;
    }
    all.data = data.buf;
    all.start = start;
    all.end = end;
    all.batch_count = PyList_GET_SIZE(batches);
    all.batches = PyMem_New(Batch, (size_t)all.batch_count + 1);
    PyObject *result = NULL;
    if (all.batches == NULL) {
        PyErr_NoMemory();
    }
    else {
        Py_ssize_t taken = 0, bytes = 0;
        while (taken < all.batch_count && PyList_GET_SIZE(batches) == all.batch_count &&
               take_batch(PyList_GET_ITEM(batches, taken), data.len, &all.batches[taken])) {
            bytes += all.batches[taken].end - all.batches[taken].at;
            taken++;
            if (bytes > INT32_MAX) {
                break;
            }
        }
        if (bytes > INT32_MAX) {
            result = Py_NewRef(Py_None);
        }
        else if (taken == all.batch_count) {
            result = made_of(&all);
        }
    }
    PyMem_Free(all.batches);
    PyBuffer_Release(&data);
    return result;
}

static PyMethodDef methods[] = {
    {"read_columns", read_columns, METH_VARARGS, read_columns_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_columns",
    .m_doc = "Columns of Arrow, made of records by compiled code.",
    .m_size = 0,
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__columns(void)
{
    return PyModuleDef_Init(&definition);
}
