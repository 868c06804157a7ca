/* A guard program: straight-line instructions that load values and check them, until one fails.

   Values live in slots (the bound parameters, borrowed from the caller) and registers (owned by the run, made in order).
   A source number s >= 0 is slot s; s < 0 is register ~s. A program never raises: what raises does not hold. */

#define OPERATIONS(_) \
    _(LOAD_CELL) _(LOAD_GLOBAL) _(LOAD_MODULE_GLOBAL) _(LOAD_ATTRIBUTE) _(LOAD_DICTIONARY) _(LOAD_DICTIONARY_ATTRIBUTE) \
    _(LOAD_KEY) _(LOAD_ITEM) _(LOAD_TYPE) _(LOAD_CONSTANT) _(LOAD_PYTHON) \
    _(CHECK_TYPE) _(CHECK_IDENTITY) _(CHECK_WEAK_IDENTITY) _(CHECK_EQUAL) _(CHECK_LENGTH) _(CHECK_EMPTY_AT) _(CHECK_KEYS) _(CHECK_NO_KEY) \
    _(CHECK_NO_ATTRIBUTE) _(CHECK_SAME) _(CHECK_NOT_SAME) _(CHECK_TRUE) _(CHECK_FALSE) _(CHECK_TENSOR) _(CHECK_STATE) \
    _(CHECK_PYTHON)

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

typedef struct {
    int operation;
    int source;
    int second;                  /* CHECK_SAME, CHECK_NOT_SAME: the other source; LOAD_CELL, CHECK_LENGTH: the number */
    int place;                   /* where the key was in the dictionary at the last run: a guess for the next */
    PyObject *object;            /* the operand, owned */
    void *data;                  /* the operand parsed, owned; points into `object` */
    uint64_t version;            /* of the dictionary when CHECK_NO_KEY last held; see DICTIONARY_VERSION */
} Instruction;

typedef struct {
    PyObject_HEAD
    Py_ssize_t count;
    int slots;
    int registers;
    Instruction *instructions;
} GuardProgram;

/* More than none: this thread runs the compiler or its guards; nothing is captured or watched. */
static __thread int suspended;

/* What Python gives as the values of a call: FrameValues of guards/source.py. Called (locals, globals, builtins, cells). */
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
load_cell(const GuardRun *run, Py_ssize_t index)
{
    PyObject *closure = run->function->func_closure;
    if (closure == NULL || index >= PyTuple_GET_SIZE(closure)) {
        return NULL;
    }
    return new_reference_or_null(PyCell_GET(PyTuple_GET_ITEM(closure, index)));
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
    case LOAD_TYPE:
        return Py_NewRef((PyObject *)Py_TYPE(base));
    }
    return NULL;
}

/* ---- checks: 1, 0, or -1 with an exception ---- */

static int
check_length(PyObject *value, Py_ssize_t length)
{
    if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) {
        return Py_SIZE(value) == length;
    }
    return PyObject_Size(value) == length;
}

/* `dictionary[key]` is an empty dict (or of a subclass, whatever its `__len__` says). */
static int
check_empty_at(PyObject *dictionary, PyObject *key, int *place)
{
    PyObject *found = find_key(dictionary, key, place);
    return found != NULL && PyDict_Check(found) && PyDict_GET_SIZE(found) == 0;
}

static int
check_keys(PyObject *dictionary, PyObject *keys)
{
    if (!PyDict_Check(dictionary) || PyDict_GET_SIZE(dictionary) != PyTuple_GET_SIZE(keys)) {
        return 0;
    }
    Py_ssize_t position = 0, index = 0;
    PyObject *key, *value;
    while (index < PyTuple_GET_SIZE(keys) && PyDict_Next(dictionary, &position, &key, &value)) {
        Py_INCREF(key);
        int equal = constants_equal(key, PyTuple_GET_ITEM(keys, index++));
        Py_DECREF(key);
        if (equal <= 0) {
            return equal;
        }
    }
    return index == PyTuple_GET_SIZE(keys);
}

static int
check_no_key(PyObject *dictionary, PyObject *key, uint64_t *version)
{
    if (!PyDict_Check(dictionary)) {
        return 0;
    }
    /* No two states of any two dictionaries share a version: the same one means that nothing was written since. */
    uint64_t now = DICTIONARY_VERSION(dictionary);
    if (now != 0 && now == *version) {
        return 1;
    }
    int found = PyDict_Contains(dictionary, key);
    if (found == 0) {
        *version = now;
    }
    return found < 0 ? -1 : !found;
}

static int
check_no_attribute(PyObject *object, PyObject *name)
{
    PyObject *found = PyObject_GetAttr(object, name);
    Py_XDECREF(found);
    if (found != NULL) {
        return 0;
    }
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
        return -1;
    }
    PyErr_Clear();
    return 1;
}

/* operand: (predicate's `holds`, source number, ...) */
static int
check_python(const GuardRun *run, PyObject *operand)
{
    Py_ssize_t count = PyTuple_GET_SIZE(operand) - 1;
    PyObject *arguments = PyTuple_New(count);
    if (arguments == NULL) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *value = value_of(run, (int)PyLong_AsLong(PyTuple_GET_ITEM(operand, i + 1)));
        if (value == NULL) {
            Py_DECREF(arguments);
            return 0;
        }
        PyTuple_SET_ITEM(arguments, i, Py_NewRef(value));
    }
    PyObject *answer = PyObject_CallObject(PyTuple_GET_ITEM(operand, 0), arguments);
    Py_DECREF(arguments);
    if (answer == NULL) {
        return -1;
    }
    int holds = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return holds;
}

static int
check(const GuardRun *run, Instruction *instruction)
{
    PyObject *operand = instruction->object;
    if (instruction->operation == CHECK_STATE) {
        return state_holds(instruction->data);
    }
    if (instruction->operation == CHECK_PYTHON) {
        return check_python(run, operand);
    }
    PyObject *value = value_of(run, instruction->source);
    if (value == NULL) {
        return 0;
    }
    switch (instruction->operation) {
    case CHECK_TYPE:
        return (PyObject *)Py_TYPE(value) == operand;
    case CHECK_IDENTITY:
        return value == operand;
    case CHECK_WEAK_IDENTITY:
        /* A dead reference holds None, which nothing refers to weakly. */
        return ((PyWeakReference *)operand)->wr_object == value && value != Py_None;
    case CHECK_EQUAL:
        return constants_equal(value, operand);
    case CHECK_LENGTH:
        return check_length(value, instruction->second);
    case CHECK_EMPTY_AT:
        return check_empty_at(value, operand, &instruction->place);
    case CHECK_KEYS:
        return check_keys(value, operand);
    case CHECK_NO_KEY:
        return check_no_key(value, operand, &instruction->version);
    case CHECK_NO_ATTRIBUTE:
        return check_no_attribute(value, operand);
    case CHECK_SAME:
        return value == value_of(run, instruction->second);
    case CHECK_NOT_SAME:
        return value != value_of(run, instruction->second);
    case CHECK_TRUE:
        return PyObject_IsTrue(value);
    case CHECK_FALSE:
        return PyObject_Not(value);
    case CHECK_TENSOR:
        return tensor_matches(value, instruction->data);
    }
    return 0;
}

/* ---- the run ---- */

static int
run_instructions(const GuardProgram *program, GuardRun *run)
{
    const Instruction *end = program->instructions + program->count;
    for (Instruction *instruction = program->instructions; instruction < end; instruction++) {
        if (instruction->operation < CHECK_TYPE) {
            PyObject *loaded = load(run, instruction);
            if (loaded == NULL) {
                return 0;
            }
            run->registers[run->made++] = loaded;
        } else if (check(run, instruction) <= 0) {
            return 0;
        }
    }
    return 1;
}

/* An interrupt from the keyboard while a guard ran is not lost: it is raised again in the user's code. */
static void
forget_guard_exception(void)
{
    if (PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
            PyErr_SetInterruptEx(SIGINT);
        }
        PyErr_Clear();
    }
}

static bool
program_holds(GuardProgram *program, PyObject *const *slots, PyFunctionObject *function)
{
    PyObject *in_place[REGISTERS_IN_PLACE];
    GuardRun run = {slots, function, in_place, 0};
    if (program->registers > REGISTERS_IN_PLACE) {
        run.registers = PyMem_Malloc(program->registers * sizeof(PyObject *));
        if (run.registers == NULL) {
            return false;
        }
    }
    suspended++;
    bool holds = run_instructions(program, &run);
    if (!holds) {
        forget_guard_exception();
    }
    while (run.made > 0) {
        Py_DECREF(run.registers[--run.made]);
    }
    suspended--;
    if (run.registers != in_place) {
        PyMem_Free(run.registers);
    }
    return holds;
}

/* ---- the Python type ---- */

static int
parse_operand(Instruction *instruction)
{
    PyObject *object = instruction->object;
    bool wants_tuple = instruction->operation == CHECK_KEYS || instruction->operation == CHECK_PYTHON
        || instruction->operation == LOAD_MODULE_GLOBAL;
    if (wants_tuple && (!PyTuple_Check(object) || PyTuple_GET_SIZE(object) < (instruction->operation != CHECK_KEYS))) {
        PyErr_SetString(PyExc_TypeError, "this operation takes a tuple");
        return -1;
    }
    if (instruction->operation == CHECK_WEAK_IDENTITY && !PyWeakref_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "this operation takes a weak reference");
        return -1;
    }
    if (instruction->operation == CHECK_TENSOR) {
        instruction->data = tensor_facts(object);
        return instruction->data == NULL ? -1 : 0;
    }
    if (instruction->operation == CHECK_STATE) {
        instruction->data = state_facts(object);
        return instruction->data == NULL ? -1 : 0;
    }
    return 0;
}

static bool
source_exists(const GuardProgram *program, int source)
{
    return source >= 0 ? source < program->slots : ~source < program->registers;
}

/* The sources that an instruction reads; those of CHECK_PYTHON are in its operand. */
static bool
sources_exist(const GuardProgram *program, const Instruction *instruction)
{
    switch (instruction->operation) {
    case LOAD_CELL: case LOAD_GLOBAL: case LOAD_MODULE_GLOBAL: case LOAD_CONSTANT: case LOAD_PYTHON: case CHECK_STATE:
        return true;
    case CHECK_PYTHON:
        for (Py_ssize_t i = 1; PyTuple_Check(instruction->object) && i < PyTuple_GET_SIZE(instruction->object); i++) {
            if (!source_exists(program, (int)PyLong_AsLong(PyTuple_GET_ITEM(instruction->object, i)))) {
                return false;
            }
        }
        return true;
    case CHECK_SAME: case CHECK_NOT_SAME:
        return source_exists(program, instruction->source) && source_exists(program, instruction->second);
    }
    return source_exists(program, instruction->source);
}

static int
parse_instruction(GuardProgram *program, PyObject *row)
{
    Instruction *instruction = &program->instructions[program->count];
    if (!PyArg_ParseTuple(row, "iiiO", &instruction->operation, &instruction->source, &instruction->second,
                          &instruction->object)) {
        return -1;
    }
    Py_INCREF(instruction->object);
    program->count++;
    if (instruction->operation < 0 || instruction->operation >= OPERATION_COUNT || !sources_exist(program, instruction)) {
        PyErr_SetString(PyExc_ValueError, "no such operation or source");
        return -1;
    }
    program->registers += instruction->operation < CHECK_TYPE;
    return parse_operand(instruction);
}

static PyObject *
program_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    int slots;
    PyObject *rows;
    if (!PyArg_ParseTuple(arguments, "iO!", &slots, &PyList_Type, &rows)) {
        return NULL;
    }
    GuardProgram *program = (GuardProgram *)type->tp_alloc(type, 0);
    if (program == NULL) {
        return NULL;
    }
    program->slots = slots;
    program->instructions = PyMem_Calloc(PyList_GET_SIZE(rows) + 1, sizeof(Instruction));
    if (program->instructions == NULL) {
        Py_DECREF(program);
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(rows); i++) {
        if (parse_instruction(program, PyList_GET_ITEM(rows, i)) < 0) {
            Py_DECREF(program);
            return NULL;
        }
    }
    return (PyObject *)program;
}

static int
program_traverse(GuardProgram *program, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; i < program->count; i++) {
        Py_VISIT(program->instructions[i].object);
    }
    return 0;
}

static int
program_clear(GuardProgram *program)
{
    Py_ssize_t count = program->count;
    program->count = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyMem_Free(program->instructions[i].data);
        Py_DECREF(program->instructions[i].object);
    }
    return 0;
}

static void
program_dealloc(GuardProgram *program)
{
    PyObject_GC_UnTrack(program);
    program_clear(program);
    PyMem_Free(program->instructions);
    Py_TYPE(program)->tp_free((PyObject *)program);
}

static PyObject *
program_holds_for(GuardProgram *program, PyObject *arguments)
{
    PyObject *slots, *function;
    if (!PyArg_ParseTuple(arguments, "O!O!", &PyTuple_Type, &slots, &PyFunction_Type, &function)) {
        return NULL;
    }
    if (PyTuple_GET_SIZE(slots) != program->slots) {
        PyErr_SetString(PyExc_ValueError, "a value for each parameter is expected");
        return NULL;
    }
    return PyBool_FromLong(program_holds(program, PySequence_Fast_ITEMS(slots), (PyFunctionObject *)function));
}

static PyMethodDef program_methods[] = {
    {"holds", (PyCFunction)program_holds_for, METH_VARARGS, "holds(parameter values, function) -> bool"},
    {NULL},
};

static PyTypeObject GuardProgramType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynascope.frame.hook.GuardProgram",
    .tp_doc = "GuardProgram(parameter count, [(operation, source, number, operand), ...]): the guards of one entry.",
    .tp_basicsize = sizeof(GuardProgram),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = program_new,
    .tp_traverse = (traverseproc)program_traverse,
    .tp_clear = (inquiry)program_clear,
    .tp_dealloc = (destructor)program_dealloc,
    .tp_methods = program_methods,
};
