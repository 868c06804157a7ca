/* Reading a tensor's facts straight from its memory.

   Nothing here knows torch: `guards/tensor_layout.py` finds where each fact lies in the torch of this process, proves it
   on many tensors, and only then says so through configure_tensors(). Until then no program may contain CHECK_TENSOR. */

typedef struct {
    int ready;
    Py_ssize_t implementation;   /* in the Python object: pointer to the C++ object; all further places are in that */
    Py_ssize_t key_set;          /* 64 bits: backend, layout, conj, neg, wrapper and inference keys */
    Py_ssize_t dimensions;       /* count; then up to 5 sizes and 5 strides in place, or a pointer to sizes and strides */
    Py_ssize_t dtype;            /* 16 bits */
    Py_ssize_t device;           /* 16 bits: type and index */
    bool (*requires_grad)(const void *);
    int (*data_pointer)(const void *, void **);
} TensorLayout;

static TensorLayout tensor_layout;

enum { DIMENSIONS_IN_PLACE = 5, ANY = -1, VARYING = -2 };

typedef struct {
    PyTypeObject *type;
    uint64_t key_set;
    uint16_t dtype;
    uint16_t device;
    int requires_grad;
    Py_ssize_t dimensions;
    int64_t extents[];           /* sizes, then strides; ANY matches all, VARYING all from 2 on */
} TensorFacts;

#define AT(type, base, offset) (*(const type *)((const char *)(base) + (offset)))

static inline const void *
tensor_implementation(PyObject *tensor)
{
    return AT(void *, tensor, tensor_layout.implementation);
}

static inline const int64_t *
tensor_sizes(const void *implementation, int64_t dimensions)
{
    const char *place = (const char *)implementation + tensor_layout.dimensions + sizeof(int64_t);
    return dimensions <= DIMENSIONS_IN_PLACE ? (const int64_t *)place : AT(int64_t *, place, 0);
}

static inline const int64_t *
tensor_strides(const int64_t *sizes, int64_t dimensions)
{
    return sizes + (dimensions <= DIMENSIONS_IN_PLACE ? DIMENSIONS_IN_PLACE : dimensions);
}

static inline bool
extents_match(const int64_t *expected, const int64_t *found, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        if (expected[i] != found[i] && expected[i] != ANY && (expected[i] != VARYING || found[i] < 2)) {
            return false;
        }
    }
    return true;
}

/* What is of the expected type, torch.Tensor or a subclass, may be read as a tensor. */
static bool
tensor_matches(PyObject *tensor, const TensorFacts *facts)
{
    if (Py_TYPE(tensor) != facts->type) {
        return false;
    }
    const void *implementation = tensor_implementation(tensor);
    if (implementation == NULL
        || AT(uint64_t, implementation, tensor_layout.key_set) != facts->key_set
        || AT(uint16_t, implementation, tensor_layout.dtype) != facts->dtype
        || AT(uint16_t, implementation, tensor_layout.device) != facts->device
        || AT(int64_t, implementation, tensor_layout.dimensions) != facts->dimensions) {
        return false;
    }
    const int64_t *sizes = tensor_sizes(implementation, facts->dimensions);
    return extents_match(facts->extents, sizes, facts->dimensions)
        && extents_match(facts->extents + facts->dimensions, tensor_strides(sizes, facts->dimensions), facts->dimensions)
        && tensor_layout.requires_grad(implementation) == facts->requires_grad;
}

/* False where the object is no tensor that may be read. */
static inline bool
extent_of(PyObject *tensor, PyObject *tensor_type, bool stride, int64_t dimension, int64_t *found)
{
    bool readable = tensor_layout.ready && PyType_Check(tensor_type) && PyObject_TypeCheck(tensor, (PyTypeObject *)tensor_type);
    const void *implementation = readable ? tensor_implementation(tensor) : NULL;
    if (implementation == NULL) {
        return false;
    }
    int64_t dimensions = AT(int64_t, implementation, tensor_layout.dimensions);
    if (dimension >= dimensions) {
        return false;
    }
    const int64_t *sizes = tensor_sizes(implementation, dimensions);
    *found = (stride ? tensor_strides(sizes, dimensions) : sizes)[dimension];
    return true;
}

/* operand: (type, key_set, dtype, device, requires_grad, extents) with ANY for what does not matter */
static TensorFacts *
tensor_facts(PyObject *operand)
{
    unsigned long long key_set;
    int dtype, device, requires_grad;
    PyObject *type, *extents;
    if (!tensor_layout.ready) {
        PyErr_SetString(PyExc_RuntimeError, "configure_tensors() was not called");
        return NULL;
    }
    if (!PyArg_ParseTuple(operand, "O!KiipO!", &PyType_Type, &type, &key_set, &dtype, &device, &requires_grad, &PyTuple_Type,
                          &extents)) {
        return NULL;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(extents);
    TensorFacts *facts = PyMem_Malloc(sizeof(TensorFacts) + count * sizeof(int64_t));
    if (facts == NULL) {
        return (TensorFacts *)PyErr_NoMemory();
    }
    *facts = (TensorFacts){(PyTypeObject *)type, key_set, (uint16_t)dtype, (uint16_t)device, requires_grad, count / 2};
    for (Py_ssize_t i = 0; i < count; i++) {
        facts->extents[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(extents, i));
    }
    if (PyErr_Occurred()) {
        PyMem_Free(facts);
        return NULL;
    }
    return facts;
}

static PyObject *
configure_tensors(PyObject *module, PyObject *arguments)
{
    TensorLayout layout = {.ready = 1};
    unsigned long long requires_grad, data_pointer;
    if (!PyArg_ParseTuple(arguments, "nnnnnKK", &layout.implementation, &layout.key_set, &layout.dimensions, &layout.dtype,
                          &layout.device, &requires_grad, &data_pointer)) {
        return NULL;
    }
    layout.requires_grad = (bool (*)(const void *))(uintptr_t)requires_grad;
    layout.data_pointer = (int (*)(const void *, void **))(uintptr_t)data_pointer;
    tensor_layout = layout;
    Py_RETURN_NONE;
}
