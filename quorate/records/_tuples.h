/* For tuples that are made without Python's own functions for it. */

#ifndef QUORATE_TUPLES_H
#define QUORATE_TUPLES_H

#include <Python.h>

/* From 3.14 on a tuple remembers its hash; that of a new one is not known. */
static inline void
forget_hash(PyObject *tuple)
{
#if PY_VERSION_HEX >= 0x030E0000
    ((PyTupleObject *)tuple)->ob_hash = -1;
#else
    (void)tuple;
#endif
}

#endif
