/* A guard program: straight-line instructions that load values and check them, until one fails.

   Values live in slots (the bound parameters, borrowed from the caller) and registers (made in order).
   A source number s >= 0 is slot s; s < 0 is register ~s. A program never raises: what raises does not hold. */

#define OPERATIONS(_) \
    _(LOAD_CELL) _(LOAD_VARIABLE) _(LOAD_GLOBAL) _(LOAD_MODULE_GLOBAL) _(LOAD_ATTRIBUTE) _(LOAD_DICTIONARY) _(LOAD_DICTIONARY_ATTRIBUTE) \
    _(LOAD_KEY) _(LOAD_ITEM) _(LOAD_TYPE) _(LOAD_CONSTANT) _(LOAD_PYTHON) _(LOAD_SIZE) _(LOAD_STRIDE) _(LOAD_KEYED) _(LOAD_NTH_KEY) \
    _(CHECK_TYPE) _(CHECK_IDENTITY) _(CHECK_WEAK_IDENTITY) _(CHECK_EQUAL) _(CHECK_LENGTH) _(CHECK_EMPTY_AT) _(CHECK_KEYS) _(CHECK_NO_KEY) \
    _(CHECK_NO_ATTRIBUTE) _(CHECK_SAME) _(CHECK_NOT_SAME) _(CHECK_TRUE) _(CHECK_FALSE) _(CHECK_TENSOR) _(CHECK_STATE) \
    _(CHECK_PYTHON) _(CHECK_WORLD) _(CHECK_NO_KEYS) _(CHECK_CALL) _(CHECK_RELATIONS) _(CHECK_APART) \
    _(CHECK_LEAF)

typedef enum {
#define AS_ENUM(name) name,
    OPERATIONS(AS_ENUM)
#undef AS_ENUM
    OPERATION_COUNT
} Operation;

static const char *const operation_names[] = {
#define AS_NAME(name) #name,
    OPERATIONS(AS_NAME)
#undef AS_NAME
};

/* What a check says beside 1, 0 and -1 (an exception is set): C may not answer, Python must be asked. */
enum { CHECK_UNSURE = 2 };

typedef struct {
    int operation;
    int source;
    int second;                  /* CHECK_SAME, CHECK_NOT_SAME, LOAD_KEYED: the other source; LOAD_CELL, LOAD_VARIABLE, LOAD_SIZE, LOAD_STRIDE, LOAD_NTH_KEY, CHECK_LENGTH: the number */
    int place;                   /* where the key was in the dictionary at the last run: a guess for the next */
    PyObject *object;            /* the operand, owned */
    void *data;                  /* the operand parsed, owned; points into `object`: TensorFacts, StateFacts, KeyPlaces, World */
    uint64_t version;            /* of the dictionary when CHECK_NO_KEY or CHECK_NO_KEYS last held; see DICTIONARY_VERSION */
} Instruction;

/* CHECK_EMPTY_AT: the keys, and where each was in the dictionary at the last run. */
typedef struct {
    Py_ssize_t count;
    PyObject *const *names;
    int places[];
} KeyPlaces;

typedef struct {
    PyObject_HEAD
    Py_ssize_t count;
    int slots;
    int registers;
    Instruction *instructions;
} GuardProgram;

/* More than none: this thread runs the compiler or its guards; nothing is captured or watched. */
static __thread int suspended;

/* What Python gives as the values of a call: FrameValues of guards/source.py. Called (locals, globals, builtins, cells, variables). */
static PyObject *values_type;

enum { REGISTERS_IN_PLACE = 128 };

typedef struct {
    PyObject *const *slots;
    PyFunctionObject *function;
    PyObject **registers;
    int made;
} GuardRun;

static PyObject *frame_values(PyObject *const *slots, PyFunctionObject *function);

static inline PyObject *
value_of(const GuardRun *run, int source)
{
    return source >= 0 ? run->slots[source] : run->registers[~source];
}

/* Whether `source` says what the instruction is about. */
static inline bool
has_source(const Instruction *instruction)
{
    const uint64_t without = 1ull << LOAD_CELL | 1ull << LOAD_VARIABLE | 1ull << LOAD_GLOBAL | 1ull << LOAD_MODULE_GLOBAL | 1ull << LOAD_CONSTANT
        | 1ull << LOAD_PYTHON | 1ull << CHECK_STATE | 1ull << CHECK_PYTHON | 1ull << CHECK_WORLD | 1ull << CHECK_CALL
        | 1ull << CHECK_RELATIONS | 1ull << CHECK_APART;
    return !(1ull << instruction->operation & without);
}

static inline PyObject *
new_reference_or_null(PyObject *borrowed)
{
    return Py_XNewRef(borrowed);
}

/* ---- equality of constants: as Equals in guards/guard.py. 1, 0, or -1 with an exception. ---- */

static bool
floats_equal(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
}

static int constants_equal(PyObject *a, PyObject *b);

static int
items_equal(PyObject *const *a, PyObject *const *b, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        int equal = constants_equal(a[i], b[i]);
        if (equal <= 0) {
            return equal;
        }
    }
    return 1;
}

static int
constants_equal(PyObject *a, PyObject *b)
{
    if (a == b) {
        return 1;
    }
    if (Py_TYPE(a) != Py_TYPE(b) || PyBool_Check(a)) {
        return 0;
    }
    if (PyFloat_CheckExact(a)) {
        return floats_equal(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b));
    }
    if (PyComplex_CheckExact(a)) {
        Py_complex left = PyComplex_AsCComplex(a), right = PyComplex_AsCComplex(b);
        return floats_equal(left.real, right.real) && floats_equal(left.imag, right.imag);
    }
    if (PyTuple_CheckExact(a) || PyList_CheckExact(a)) {
        return Py_SIZE(a) == Py_SIZE(b)
            && items_equal(PySequence_Fast_ITEMS(a), PySequence_Fast_ITEMS(b), Py_SIZE(a));
    }
    return PyObject_RichCompareBool(a, b, Py_EQ);
}

/* ---- loads: a new reference, or NULL with or without an exception where the place does not exist ---- */

static PyObject *
own_dictionary(PyObject *object)
{
    if (PyType_Check(object)) {
        return type_namespace((PyTypeObject *)object);
    }
    PyObject **place = _PyObject_GetDictPtr(object);
    return place == NULL ? NULL : *place;
}

enum { PLACES_TO_REMEMBER = 64 };

/* Borrowed. Most lookups of a warm program find the key where it was the last time. */
static __attribute__((noinline)) PyObject *
search_key(PyObject *dictionary, PyObject *key, int *place)
{
    PyObject *found = PyDict_GetItemWithError(dictionary, key);
    Py_ssize_t places = found == NULL ? 0 : dictionary_places(dictionary);
    for (int i = 0; i < places && i < PLACES_TO_REMEMBER; i++) {
        if (dictionary_at(dictionary, key, i) == found) {
            *place = i;
            break;
        }
    }
    return found;
}

static inline PyObject *
find_key(PyObject *dictionary, PyObject *key, int *place)
{
    if (dictionary == NULL || !PyDict_Check(dictionary)) {
        return NULL;
    }
    PyObject *found = dictionary_at(dictionary, key, *place);
    return found != NULL ? found : search_key(dictionary, key, place);
}

static inline PyObject *
load_key(PyObject *dictionary, PyObject *key, int *place)
{
    return new_reference_or_null(find_key(dictionary, key, place));
}

static PyObject *
load_variable(const GuardRun *run, Py_ssize_t index)
{
    PyObject *closure = run->function->func_closure;
    return closure == NULL || index >= PyTuple_GET_SIZE(closure) ? NULL : Py_NewRef(PyTuple_GET_ITEM(closure, index));
}

static PyObject *
load_cell(const GuardRun *run, Py_ssize_t index)
{
    PyObject *cell = load_variable(run, index);
    PyObject *content = cell == NULL ? NULL : new_reference_or_null(PyCell_GET(cell));
    Py_XDECREF(cell);
    return content;
}

static PyObject *
load_global(const GuardRun *run, PyObject *name, int *place)
{
    PyObject *found = find_key(run->function->func_globals, name, place);
    if (found == NULL && !PyErr_Occurred() && PyDict_Check(run->function->func_builtins)) {
        found = PyDict_GetItemWithError(run->function->func_builtins, name);
    }
    return new_reference_or_null(found);
}

/* operand: (module name, name) */
static PyObject *
load_module_global(PyObject *operand)
{
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *module = PyDict_GetItemWithError(modules, PyTuple_GET_ITEM(operand, 0));
    if (module == NULL || !PyModule_Check(module)) {
        return NULL;
    }
    return new_reference_or_null(PyDict_GetItemWithError(PyModule_GetDict(module), PyTuple_GET_ITEM(operand, 1)));
}

/* As ItemSource.read: a list's, tuple's or dict's own item, whatever a subclass makes of `[]`. */
static PyObject *
load_item(PyObject *base, PyObject *key, int *place)
{
    if (PyDict_Check(base)) {
        return load_key(base, key, place);
    }
    if ((!PyTuple_Check(base) && !PyList_Check(base)) || !PyLong_Check(key)) {
        return PyObject_GetItem(base, key);
    }
    Py_ssize_t index = PyLong_AsSsize_t(key), size = Py_SIZE(base);
    if (index == -1 && PyErr_Occurred()) {
        return NULL;
    }
    index += index < 0 ? size : 0;
    return index < 0 || index >= size ? NULL : Py_NewRef(PySequence_Fast_ITEMS(base)[index]);
}

/* The key at a position of a dict that is asked in the order of its entries, borrowed; NULL where it is not sure. */
static PyObject *
nth_key(PyObject *dictionary, Py_ssize_t position)
{
    if (!PyDict_Check(dictionary) || Py_TYPE(dictionary)->tp_iter != PyDict_Type.tp_iter) {
        return NULL;
    }
    PyObject *key = NULL;
    Py_ssize_t at = position;
    const PyDictObject *entries = (PyDictObject *)dictionary;
    /* Where nothing was ever deleted the entry has that place. */
    if (entries->ma_values != NULL || entries->ma_used != entries->ma_keys->dk_nentries) {
        at = 0;
    }
    Py_ssize_t left = position - at;
    while (PyDict_Next(dictionary, &at, &key, NULL)) {
        if (left-- == 0) {
            return key;
        }
    }
    return NULL;
}

/* operand: a callable that takes the call's values: a source that has no instruction of its own */
static PyObject *
load_python(const GuardRun *run, PyObject *reader)
{
    PyObject *values = frame_values(run->slots, run->function);
    if (values == NULL) {
        return NULL;
    }
    PyObject *found = PyObject_CallOneArg(reader, values);
    Py_DECREF(values);
    return found;
}

static PyObject *
load(const GuardRun *run, Instruction *instruction)
{
    PyObject *operand = instruction->object;
    switch (instruction->operation) {
    case LOAD_CELL:
        return load_cell(run, instruction->second);
    case LOAD_VARIABLE:
        return load_variable(run, instruction->second);
    case LOAD_GLOBAL:
        return load_global(run, operand, &instruction->place);
    case LOAD_MODULE_GLOBAL:
        return load_module_global(operand);
    case LOAD_CONSTANT:
        return Py_NewRef(operand);
    case LOAD_PYTHON:
        return load_python(run, operand);
    }
    PyObject *base = value_of(run, instruction->source);
    if (base == NULL) {
        return NULL;
    }
    switch (instruction->operation) {
    case LOAD_ATTRIBUTE:
        return PyObject_GetAttr(base, operand);
    case LOAD_DICTIONARY:
        return new_reference_or_null(own_dictionary(base));
    case LOAD_DICTIONARY_ATTRIBUTE:
        return load_key(own_dictionary(base), operand, &instruction->place);
    case LOAD_KEY:
        return load_key(base, operand, &instruction->place);
    case LOAD_ITEM:
        return load_item(base, operand, &instruction->place);
    case LOAD_NTH_KEY: {
        PyObject *key = nth_key(base, instruction->second);
        return key == NULL ? load_python(run, operand) : Py_NewRef(key);
    }
    case LOAD_KEYED: {
        PyObject *key = value_of(run, instruction->second);
        return key == NULL ? NULL : load_key(base, key, &instruction->place);
    }
    case LOAD_TYPE:
        return Py_NewRef((PyObject *)Py_TYPE(base));
    case LOAD_SIZE: case LOAD_STRIDE: {
        int64_t found;
        bool known = extent_of(base, operand, instruction->operation == LOAD_STRIDE, instruction->second, &found);
        return known ? PyLong_FromLongLong(found) : NULL;
    }
    }
    return NULL;
}
