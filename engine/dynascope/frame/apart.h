/* CHECK_APART: no two of these tensors share memory. A training step asks it of hundreds, which hardly ever move: where all lie
   as at the last call, that they were apart then is the answer. */

typedef struct {
    uintptr_t begin, end;
} MemoryRange;

typedef struct {
    Py_ssize_t count;
    PyObject *tensor_type;       /* borrowed from the operand, as the next two */
    PyObject *sources;           /* from the second item on */
    PyObject *element_sizes;
    bool held;
    MemoryRange *last, *now, *sorted;
    MemoryRange ranges[];
} Apart;

/* The bytes that the elements lie in, none of an empty tensor; false where the object is no tensor that may be read. */
static bool
memory_range(PyObject *tensor, PyObject *tensor_type, int64_t element_size, MemoryRange *found)
{
    bool readable = tensor_layout.ready && tensor_layout.data_pointer != NULL && PyType_Check(tensor_type)
        && PyObject_TypeCheck(tensor, (PyTypeObject *)tensor_type);
    const void *implementation = readable ? tensor_implementation(tensor) : NULL;
    void *address;
    if (implementation == NULL || tensor_layout.data_pointer(&implementation, &address) != 0) {
        return false;
    }
    int64_t dimensions = AT(int64_t, implementation, tensor_layout.dimensions), last = 0;
    const int64_t *sizes = tensor_sizes(implementation, dimensions), *strides = tensor_strides(sizes, dimensions);
    *found = (MemoryRange){0, 0};
    for (int64_t i = 0; i < dimensions; i++) {
        if (sizes[i] == 0) {
            return true;
        }
        last += (sizes[i] - 1) * strides[i];
    }
    *found = (MemoryRange){(uintptr_t)address, (uintptr_t)address + (uintptr_t)((last + 1) * element_size)};
    return true;
}

static int
by_begin(const void *one, const void *other)
{
    uintptr_t a = ((const MemoryRange *)one)->begin, b = ((const MemoryRange *)other)->begin;
    return (a > b) - (a < b);
}

static int
are_apart(const GuardRun *run, Apart *apart)
{
    for (Py_ssize_t i = 0; i < apart->count; i++) {
        PyObject *tensor = value_of(run, (int)PyLong_AsLong(PyTuple_GET_ITEM(apart->sources, i + 1)));
        int64_t size = PyLong_AsLongLong(PyTuple_GET_ITEM(apart->element_sizes, i));
        if (tensor == NULL || !memory_range(tensor, apart->tensor_type, size, &apart->now[i])) {
            return CHECK_UNSURE;
        }
    }
    size_t bytes = apart->count * sizeof(MemoryRange);
    if (apart->held && memcmp(apart->now, apart->last, bytes) == 0) {
        return 1;
    }
    memcpy(apart->sorted, apart->now, bytes);
    qsort(apart->sorted, apart->count, sizeof(MemoryRange), by_begin);
    uintptr_t end = 0;
    for (Py_ssize_t i = 0; i < apart->count; i++) {
        MemoryRange range = apart->sorted[i];
        if (range.begin == range.end) {
            continue;
        }
        if (range.begin < end) {
            return 0;
        }
        end = range.end;
    }
    memcpy(apart->last, apart->now, bytes);
    apart->held = true;
    return 1;
}

/* operand: ((check in Python, sources...), size of an element of each in bytes, the type of tensors) */
static Apart *
apart_of(PyObject *operand)
{
    bool fits = PyTuple_GET_SIZE(operand) == 3 && PyTuple_Check(PyTuple_GET_ITEM(operand, 0))
        && PyTuple_Check(PyTuple_GET_ITEM(operand, 1))
        && PyTuple_GET_SIZE(PyTuple_GET_ITEM(operand, 0)) == PyTuple_GET_SIZE(PyTuple_GET_ITEM(operand, 1)) + 1;
    if (!fits) {
        PyErr_SetString(PyExc_TypeError, "tensors apart are a check in Python with its sources, sizes of elements, and the type of tensors");
        return NULL;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(PyTuple_GET_ITEM(operand, 1));
    Apart *apart = PyMem_Calloc(1, sizeof(Apart) + 3 * count * sizeof(MemoryRange));
    if (apart == NULL) {
        return (Apart *)PyErr_NoMemory();
    }
    apart->count = count;
    apart->sources = PyTuple_GET_ITEM(operand, 0);
    apart->element_sizes = PyTuple_GET_ITEM(operand, 1);
    apart->tensor_type = PyTuple_GET_ITEM(operand, 2);
    apart->last = apart->ranges;
    apart->now = apart->last + count;
    apart->sorted = apart->now + count;
    return apart;
}
