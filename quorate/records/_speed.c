/* Collects, lays out and reads records several times faster than Python can.
 *
 * Optional: quorate/records/record.py has a twin of each function in Python and uses it where
 * this was not built. Tests hold the two to the same results, errors included.
 *
 * Bytes come from strangers. Every read is checked against the end of the record's batch, and
 * nothing is trusted but what was checked.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <structmember.h>

#include "_reader.h"
#include "_tuples.h"

enum { RECORD_FIELDS = 6 };

/* What the records of a batch have in common. */
typedef struct {
    PyTypeObject *kind;
    PyObject *topic_partition; /* borrowed, like kind */
    int64_t base_offset;
    int64_t base_timestamp_ms;
    PyObject *stamp_ms;     /* borrowed: the timestamp of all records, or None */
    PyObject *timestamp_ms; /* of the record before, owned: often it is the next one's too */
    uint64_t timestamp_delta;
} Batch;

/* Returns bytes, or None for length -1; NULL without an exception if the reader has a reason. */
static PyObject *
read_bytes(Reader *reader, const char *negative)
{
    uint64_t raw = read_raw(reader);
    if (reader->why != NULL) {
        return NULL;
    }
    if (raw & 1) {
        if (raw != 1) {
            reader->why = negative;
            return NULL;
        }
        Py_RETURN_NONE;
    }
    uint64_t size = raw >> 1;
    if (size > (uint64_t)(reader->end - reader->at)) {
        reader->why = CUT_OFF;
        return NULL;
    }
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)reader->at, (Py_ssize_t)size);
    reader->at += size;
    return bytes;
}

static PyObject *
read_header(Reader *reader)
{
    uint64_t raw = read_raw(reader);
    if (reader->why != NULL) {
        return NULL;
    }
    uint64_t size = raw >> 1;
    if (raw & 1) {
        reader->why = raw == 1 ? "a header does not fit its record" : "a negative length";
        return NULL;
    }
    if (size > (uint64_t)(reader->end - reader->at)) {
        reader->why = "a header does not fit its record";
        return NULL;
    }
    /* What is no UTF-8 is replaced, as Java does: nobody reads past a record that is refused. */
    PyObject *name = PyUnicode_DecodeUTF8((const char *)reader->at, (Py_ssize_t)size, "replace");
    if (name == NULL) {
        return NULL;
    }
    reader->at += size;
    PyObject *value = read_bytes(reader, "a negative length");
    if (value == NULL) {
        Py_DECREF(name);
        return NULL;
    }
    PyObject *header = PyTuple_New(2);
    if (header == NULL) {
        Py_DECREF(name);
        Py_DECREF(value);
        return NULL;
    }
    PyTuple_SET_ITEM(header, 0, name);
    PyTuple_SET_ITEM(header, 1, value);
    return header;
}

static PyObject *
read_headers(Reader *reader)
{
    uint64_t raw = read_raw(reader);
    if (reader->why != NULL) {
        return NULL;
    }
    /* Twice the count; a header takes two bytes at least. */
    if (raw & 1 || raw > (uint64_t)(reader->end - reader->at)) {
        reader->why = "more headers than the record can hold";
        return NULL;
    }
    Py_ssize_t count = (Py_ssize_t)(raw >> 1);
    PyObject *headers = PyTuple_New(count);
    for (Py_ssize_t i = 0; headers != NULL && i < count; i++) {
        PyObject *header = read_header(reader);
        if (header == NULL) {
            Py_CLEAR(headers);
            break;
        }
        PyTuple_SET_ITEM(headers, i, header);
    }
    return headers;
}

/* Returns base + delta modulo 2^64, as Java reckons: strangers may make it overflow. */
static PyObject *
sum_of(int64_t base, uint64_t raw_delta)
{
    return PyLong_FromLongLong((int64_t)((uint64_t)base + (uint64_t)unzigzag(raw_delta)));
}

/* Returns a record's timestamp, which is often that of the record before. */
static PyObject *
timestamp_of(Batch *batch, uint64_t raw_delta)
{
    if (batch->stamp_ms != Py_None) {
        return Py_NewRef(batch->stamp_ms);
    }
    if (batch->timestamp_ms == NULL || batch->timestamp_delta != raw_delta) {
        Py_XSETREF(batch->timestamp_ms, sum_of(batch->base_timestamp_ms, raw_delta));
        batch->timestamp_delta = raw_delta;
    }
    return Py_XNewRef(batch->timestamp_ms);
}

/* Fills a record that was allocated; 0 if that worked. What was set belongs to the record. */
static int
fill_record(Reader *reader, PyObject *record, Batch *batch)
{
    uint64_t timestamp_delta = read_raw(reader);
    if (reader->why != NULL) {
        return -1;
    }
    uint64_t offset_delta = read_raw(reader);
    if (reader->why != NULL) {
        return -1;
    }
    PyObject *item;
    PyTuple_SET_ITEM(record, 0, Py_NewRef(batch->topic_partition));
    if ((item = sum_of(batch->base_offset, offset_delta)) == NULL) {
        return -1;
    }
    PyTuple_SET_ITEM(record, 1, item);
    if ((item = timestamp_of(batch, timestamp_delta)) == NULL) {
        return -1;
    }
    PyTuple_SET_ITEM(record, 2, item);
    if ((item = read_bytes(reader, "a negative length")) == NULL) {
        return -1;
    }
    PyTuple_SET_ITEM(record, 3, item);
    if ((item = read_bytes(reader, "a value of negative length")) == NULL) {
        return -1;
    }
    PyTuple_SET_ITEM(record, 4, item);
    if ((item = read_headers(reader)) == NULL) {
        return -1;
    }
    PyTuple_SET_ITEM(record, 5, item);
    return 0;
}

/* Returns a record without its fields. Python's collector never hears of it: nothing in a record
 * can lead back to it, and a third of the time went to the collector. */
static PyObject *
new_record(PyTypeObject *kind)
{
    PyTupleObject *record = PyObject_GC_NewVar(PyTupleObject, kind, RECORD_FIELDS);
    for (int i = 0; record != NULL && i < RECORD_FIELDS; i++) {
        record->ob_item[i] = NULL;
    }
    if (record != NULL) {
        forget_hash((PyObject *)record);
    }
    return (PyObject *)record;
}

static PyObject *
read_record(Reader *reader, Batch *batch)
{
    uint64_t raw = read_raw(reader);
    if (reader->why != NULL) {
        return NULL;
    }
    uint64_t size = raw >> 1;
    if (raw & 1 || size > (uint64_t)(reader->end - reader->at)) {
        reader->why = "a record's length does not fit its batch";
        return NULL;
    }
    Reader inner = {reader->at, reader->at + size, NULL};
    if (size == 0) {
        reader->why = CUT_OFF;
        return NULL;
    }
    inner.at++; /* attributes of a record: none are defined */
    PyObject *record = new_record(batch->kind);
    if (record == NULL) {
        return NULL;
    }
    if (fill_record(&inner, record, batch) < 0) {
        reader->why = inner.why;
        Py_DECREF(record);
        return NULL;
    }
    if (inner.at != inner.end) {
        reader->why = "a record's length is not that of its parts";
        Py_DECREF(record);
        return NULL;
    }
    reader->at = inner.end;
    return record;
}

PyDoc_STRVAR(read_records_doc,
"read_records(data, at, end, record_count, base_offset, base_timestamp_ms, stamp_ms,\n"
"             topic_partition, kind)\n"
"--\n\n"
"Return the records in data[at:end] as instances of kind, a named tuple of six fields.\n\n"
"All have the timestamp stamp_ms, or if that is None, their own.\n"
"Raises ValueError with the reason if the bytes are not that many records and nothing else.");

static PyObject *
read_records(PyObject *module, PyObject *args)
{
    Py_buffer data;
    Py_ssize_t at, end, count;
    long long base_offset, base_timestamp_ms;
    Batch batch = {0};
    if (!PyArg_ParseTuple(args, "y*nnnLLOOO!", &data, &at, &end, &count, &base_offset,
                          &base_timestamp_ms, &batch.stamp_ms, &batch.topic_partition, &PyType_Type,
                          &batch.kind)) {
        return NULL;
    }
    if (at < 0 || end < at || end > data.len || count < 0 || count > end - at) {
        PyErr_SetString(PyExc_ValueError, "positions outside of the data");
        PyBuffer_Release(&data);
        return NULL;
    }
    if (!PyType_IsSubtype(batch.kind, &PyTuple_Type) ||
        batch.kind->tp_basicsize != PyTuple_Type.tp_basicsize) {
        PyErr_SetString(PyExc_TypeError, "kind must be a named tuple");
        PyBuffer_Release(&data);
        return NULL;
    }
    const unsigned char *start = data.buf;
    Reader reader = {start + at, start + end, NULL};
    batch.base_offset = base_offset;
    batch.base_timestamp_ms = base_timestamp_ms;
    PyObject *records = PyList_New(count);
    for (Py_ssize_t i = 0; records != NULL && i < count; i++) {
        PyObject *record = read_record(&reader, &batch);
        if (record == NULL) {
            Py_CLEAR(records);
            break;
        }
        PyList_SET_ITEM(records, i, record);
    }
    Py_XDECREF(batch.timestamp_ms);
    PyBuffer_Release(&data);
    if (records != NULL && reader.at != reader.end) {
        reader.why = "bytes after the last record of a batch";
        Py_CLEAR(records);
    }
    if (records == NULL && reader.why != NULL && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, reader.why);
    }
    return records;
}

/* ---------------------------------------------------------------- writing */

static size_t
zigzag_size(int64_t value)
{
    uint64_t rest = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    size_t size = 1;
    while (rest > 0x7F) {
        rest >>= 7;
        size++;
    }
    return size;
}

static unsigned char *
put_zigzag(unsigned char *to, int64_t value)
{
    uint64_t rest = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    while (rest > 0x7F) {
        *to++ = (unsigned char)(rest | 0x80);
        rest >>= 7;
    }
    *to++ = (unsigned char)rest;
    return to;
}

static unsigned char *
put_bytes(unsigned char *to, PyObject *bytes)
{
    if (bytes == Py_None) {
        *to++ = 1;
        return to;
    }
    Py_ssize_t size = PyBytes_GET_SIZE(bytes);
    to = put_zigzag(to, size);
    memcpy(to, PyBytes_AS_STRING(bytes), (size_t)size);
    return to + size;
}

static size_t
bytes_size(PyObject *bytes)
{
    if (bytes == Py_None) {
        return 1;
    }
    Py_ssize_t size = PyBytes_GET_SIZE(bytes);
    return zigzag_size(size) + (size_t)size;
}

/* Returns what a dictionary has for an index (borrowed), or a default; NULL on errors. */
static PyObject *
at_index(PyObject *dict, Py_ssize_t index, PyObject *otherwise)
{
    if (PyDict_GET_SIZE(dict) == 0) {
        return otherwise;
    }
    PyObject *key = PyLong_FromSsize_t(index);
    if (key == NULL) {
        return NULL;
    }
    PyObject *found = PyDict_GetItemWithError(dict, key);
    Py_DECREF(key);
    if (found == NULL) {
        return PyErr_Occurred() ? NULL : otherwise;
    }
    if (!PyBytes_Check(found)) {
        PyErr_SetString(PyExc_TypeError, "keys and headers must be bytes");
        return NULL;
    }
    return found;
}

typedef struct {
    Py_ssize_t index;
    int64_t timestamp_delta;
    PyObject *key;
    PyObject *value;
    PyObject *headers;
} Row;

static size_t
row_size(const Row *row)
{
    size_t headers = row->headers == Py_None ? 1 : (size_t)PyBytes_GET_SIZE(row->headers);
    return 1 + zigzag_size(row->timestamp_delta) + zigzag_size(row->index) +
           bytes_size(row->key) + bytes_size(row->value) + headers;
}

static unsigned char *
put_row(unsigned char *to, const Row *row)
{
    to = put_zigzag(to, (int64_t)row_size(row));
    *to++ = 0;
    to = put_zigzag(to, row->timestamp_delta);
    to = put_zigzag(to, row->index);
    to = put_bytes(to, row->key);
    to = put_bytes(to, row->value);
    if (row->headers == Py_None) {
        *to++ = 0;
        return to;
    }
    Py_ssize_t size = PyBytes_GET_SIZE(row->headers);
    memcpy(to, PyBytes_AS_STRING(row->headers), (size_t)size);
    return to + size;
}

typedef struct {
    PyObject *values, *keys, *headers, *runs; /* borrowed */
    Py_ssize_t runs_begun;
    int64_t base_timestamp_ms;
    long long next_first; /* where the next run begins, and with which timestamp */
    long long next_timestamp_ms;
    Row row;
} Columns;

/* Learns where the next run begins; 0 if that worked. */
static int
look_at_next_run(Columns *columns)
{
    if (columns->runs_begun == PyList_GET_SIZE(columns->runs)) {
        columns->next_first = -1;
        return 0;
    }
    PyObject *run = PyList_GET_ITEM(columns->runs, columns->runs_begun);
    if (!PyTuple_Check(run)) {
        PyErr_SetString(PyExc_TypeError, "a run must be a pair of numbers");
        return -1;
    }
    return PyArg_ParseTuple(run, "LL", &columns->next_first, &columns->next_timestamp_ms) ? 0 : -1;
}

static int
rewind_columns(Columns *columns)
{
    columns->runs_begun = 0;
    columns->row.timestamp_delta = 0;
    if (look_at_next_run(columns) < 0) {
        return -1;
    }
    columns->base_timestamp_ms = columns->next_timestamp_ms;
    return 0;
}

/* Moves to the next row; 0 if that worked. No Python code runs between the first and the last. */
static int
next_row(Columns *columns, Py_ssize_t index)
{
    Row *row = &columns->row;
    if (index == columns->next_first) {
        row->timestamp_delta =
            (int64_t)((uint64_t)columns->next_timestamp_ms - (uint64_t)columns->base_timestamp_ms);
        columns->runs_begun++;
        if (look_at_next_run(columns) < 0) {
            return -1;
        }
    }
    row->index = index;
    row->value = PyList_GET_ITEM(columns->values, index);
    if (row->value != Py_None && !PyBytes_Check(row->value)) {
        PyErr_SetString(PyExc_TypeError, "values must be bytes or None");
        return -1;
    }
    row->key = at_index(columns->keys, index, Py_None);
    row->headers = row->key == NULL ? NULL : at_index(columns->headers, index, Py_None);
    return row->headers == NULL ? -1 : 0;
}

PyDoc_STRVAR(encode_records_doc,
"encode_records(values, keys, headers, runs, room_bytes)\n"
"--\n\n"
"Return records laid out behind so many bytes of 0: a list of values, dictionaries of keys and\n"
"encoded headers by index, and a list of (first index, timestamp) of each run of records with the\n"
"same timestamp.");

static PyObject *
encode_records(PyObject *module, PyObject *args)
{
    Columns columns = {0};
    Py_ssize_t room_bytes;
    if (!PyArg_ParseTuple(args, "O!O!O!O!n", &PyList_Type, &columns.values, &PyDict_Type,
                          &columns.keys, &PyDict_Type, &columns.headers, &PyList_Type,
                          &columns.runs, &room_bytes)) {
        return NULL;
    }
    if (room_bytes < 0) {
        PyErr_SetString(PyExc_ValueError, "room_bytes must not be negative");
        return NULL;
    }
    Py_ssize_t count = PyList_GET_SIZE(columns.values);
    size_t total = (size_t)room_bytes;
    if (rewind_columns(&columns) < 0) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (next_row(&columns, i) < 0) {
            return NULL;
        }
        size_t size = row_size(&columns.row);
        total += zigzag_size((int64_t)size) + size;
    }
    if (total > (size_t)PY_SSIZE_T_MAX) {
        return PyErr_NoMemory();
    }
    PyObject *encoded = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)total);
    if (encoded == NULL) {
        return NULL;
    }
    unsigned char *to = (unsigned char *)PyByteArray_AS_STRING(encoded);
    memset(to, 0, (size_t)room_bytes);
    to += room_bytes;
    if (rewind_columns(&columns) < 0) {
        Py_DECREF(encoded);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (next_row(&columns, i) < 0) {
            Py_DECREF(encoded);
            return NULL;
        }
        to = put_row(to, &columns.row);
    }
    return encoded;
}

/* ---------------------------------------------------------------- collecting */

/* Records of one batch to be: the twin of ColumnsInPython, which says what the fields mean. */
typedef struct {
    PyObject_HEAD
    PyObject *values, *keys, *headers, *runs;
    long long last_timestamp_ms;
    Py_ssize_t count;
    Py_ssize_t size_bytes;
    Py_ssize_t append_limit_bytes;
} ColumnsObject;

enum { RECORD_OVERHEAD_BYTES_MAX = 21 };

static int
columns_init(ColumnsObject *self, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t size_bytes;
    if (!PyArg_ParseTuple(args, "n", &size_bytes)) {
        return -1;
    }
    Py_XSETREF(self->values, PyList_New(0));
    Py_XSETREF(self->keys, PyDict_New());
    Py_XSETREF(self->headers, PyDict_New());
    Py_XSETREF(self->runs, PyList_New(0));
    if (!self->values || !self->keys || !self->headers || !self->runs) {
        return -1;
    }
    self->last_timestamp_ms = INT64_MIN;
    self->count = 0;
    self->size_bytes = size_bytes;
    self->append_limit_bytes = 0;
    return 0;
}

static int
columns_traverse(ColumnsObject *self, visitproc visit, void *arg)
{
    Py_VISIT(self->values);
    Py_VISIT(self->keys);
    Py_VISIT(self->headers);
    Py_VISIT(self->runs);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int
columns_clear(ColumnsObject *self)
{
    Py_CLEAR(self->values);
    Py_CLEAR(self->keys);
    Py_CLEAR(self->headers);
    Py_CLEAR(self->runs);
    return 0;
}

static void
columns_dealloc(ColumnsObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    columns_clear(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

PyDoc_STRVAR(append_plain_doc,
"append_plain(value, time_ns, kind)\n"
"--\n\n"
"Add a record of nothing but a value, and return kind((self, index)).\n\n"
"Returns None, and adds nothing, if that takes more: the value is not of type bytes, it would go\n"
"over append_limit_bytes, or the last record was not made in the same millisecond.");

static PyObject *
append_plain(ColumnsObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 3 || !PyType_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "append_plain(value, time_ns, kind)");
        return NULL;
    }
    PyObject *value = args[0];
    PyTypeObject *kind = (PyTypeObject *)args[2];
    if (!PyType_IsSubtype(kind, &PyTuple_Type) ||
        kind->tp_basicsize != PyTuple_Type.tp_basicsize) {
        PyErr_SetString(PyExc_TypeError, "kind must be a kind of tuple");
        return NULL;
    }
    long long time_ns = PyLong_AsLongLong(args[1]);
    if (time_ns == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (!PyBytes_CheckExact(value) || self->values == NULL) {
        Py_RETURN_NONE;
    }
    Py_ssize_t room_bytes = self->append_limit_bytes - self->size_bytes;
    if (room_bytes < PyBytes_GET_SIZE(value) + RECORD_OVERHEAD_BYTES_MAX ||
        time_ns / 1000000 != self->last_timestamp_ms) {
        Py_RETURN_NONE;
    }
    PyObject *index = PyLong_FromSsize_t(self->count);
    if (index == NULL) {
        return NULL;
    }
    PyObject *made = kind->tp_alloc(kind, 2);
    if (made == NULL) {
        Py_DECREF(index);
        return NULL;
    }
    forget_hash(made);
    PyTuple_SET_ITEM(made, 0, Py_NewRef((PyObject *)self));
    PyTuple_SET_ITEM(made, 1, index);
    if (PyList_Append(self->values, value) < 0) {
        Py_DECREF(made);
        return NULL;
    }
    self->size_bytes += PyBytes_GET_SIZE(value) + RECORD_OVERHEAD_BYTES_MAX;
    self->count++;
    return made;
}

static PyMemberDef columns_members[] = {
    {"values", T_OBJECT_EX, offsetof(ColumnsObject, values), READONLY, NULL},
    {"keys", T_OBJECT_EX, offsetof(ColumnsObject, keys), READONLY, NULL},
    {"headers", T_OBJECT_EX, offsetof(ColumnsObject, headers), READONLY, NULL},
    {"runs", T_OBJECT_EX, offsetof(ColumnsObject, runs), READONLY, NULL},
    {"last_timestamp_ms", T_LONGLONG, offsetof(ColumnsObject, last_timestamp_ms), 0, NULL},
    {"count", T_PYSSIZET, offsetof(ColumnsObject, count), 0, NULL},
    {"size_bytes", T_PYSSIZET, offsetof(ColumnsObject, size_bytes), 0, NULL},
    {"append_limit_bytes", T_PYSSIZET, offsetof(ColumnsObject, append_limit_bytes), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef columns_methods[] = {
    {"append_plain", (PyCFunction)(void (*)(void))append_plain, METH_FASTCALL, append_plain_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot columns_slots[] = {
    {Py_tp_doc, "Records of one batch to be, as columns."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, columns_init},
    {Py_tp_traverse, columns_traverse},
    {Py_tp_clear, columns_clear},
    {Py_tp_dealloc, columns_dealloc},
    {Py_tp_members, columns_members},
    {Py_tp_methods, columns_methods},
    {0, NULL},
};

static PyType_Spec columns_spec = {
    .name = "quorate.records._speed.Columns",
    .basicsize = sizeof(ColumnsObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = columns_slots,
};

static PyMethodDef methods[] = {
    {"read_records", read_records, METH_VARARGS, read_records_doc},
    {"encode_records", encode_records, METH_VARARGS, encode_records_doc},
    {NULL, NULL, 0, NULL},
};

static int
add_types(PyObject *module)
{
    PyObject *columns = PyType_FromModuleAndSpec(module, &columns_spec, NULL);
    if (columns == NULL) {
        return -1;
    }
    int failed = PyModule_AddObjectRef(module, "Columns", columns);
    Py_DECREF(columns);
    return failed;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_types},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_speed",
    .m_doc = "Records, collected, laid out and read by compiled code.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__speed(void)
{
    return PyModuleDef_Init(&definition);
}
