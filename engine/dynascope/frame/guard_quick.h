/* The quick run of a guard program: what can be answered without running Python code and without owning anything.

   As long as no Python code runs, nothing that was loaded can die: its place holds it. So registers borrow, until an
   instruction cannot be answered so. It says UNSURE, and the run goes on from there with references of its own. */

enum { UNSURE = CHECK_UNSURE };

/* Interned, as the names in programs are. */
static PyObject *name_of_code, *name_of_defaults, *name_of_closure, *name_of_content;

static int
prepare_names(void)
{
    name_of_code = PyUnicode_InternFromString("__code__");
    name_of_defaults = PyUnicode_InternFromString("__defaults__");
    name_of_closure = PyUnicode_InternFromString("__closure__");
    name_of_content = PyUnicode_InternFromString("cell_contents");
    return name_of_code && name_of_defaults && name_of_closure && name_of_content ? 0 : -1;
}

/* A dict in which every key is a plain string: looking a plain string up runs no code of anybody's. */
static inline bool
has_plain_keys(PyObject *dictionary)
{
    return PyDict_Check(dictionary) && DK_IS_UNICODE(((PyDictObject *)dictionary)->ma_keys);
}

static inline bool
is_plain_lookup(PyObject *dictionary, PyObject *key)
{
    return has_plain_keys(dictionary) && PyUnicode_CheckExact(key);
}

static inline PyObject *
quick_key(PyObject *dictionary, PyObject *key, int place)
{
    return PyDict_Check(dictionary) ? dictionary_at(dictionary, key, place) : NULL;
}

static PyObject *
quick_global(const PyFunctionObject *function, PyObject *name, int *place)
{
    if (!is_plain_lookup(function->func_globals, name) || !is_plain_lookup(function->func_builtins, name)) {
        return NULL;
    }
    PyObject *found = find_key(function->func_globals, name, place);
    return found != NULL ? found : PyDict_GetItemWithError(function->func_builtins, name);
}

/* What `type` and the type of modules define themselves begins so. */
static inline bool
is_special_name(PyObject *name)
{
    return PyUnicode_GET_LENGTH(name) > 1 && PyUnicode_READ_CHAR(name, 0) == '_' && PyUnicode_READ_CHAR(name, 1) == '_';
}

/* What functions, methods and cells hold in themselves. Their types cannot be derived from or changed. */
static PyObject *
quick_part(PyObject *base, PyObject *name)
{
    if (PyFunction_Check(base)) {
        const PyFunctionObject *function = (PyFunctionObject *)base;
        return name == name_of_code ? function->func_code : name == name_of_defaults ? function->func_defaults
            : name == name_of_closure ? function->func_closure : NULL;
    }
    if (PyCell_Check(base)) {
        return name == name_of_content ? PyCell_GET(base) : NULL;
    }
    return NULL;
}

/* Of modules and classes whose lookup nobody has changed: the entry itself, if it is no descriptor. */
static PyObject *
quick_attribute(PyObject *base, PyObject *name, int *place)
{
    if (PyFunction_Check(base) || PyCell_Check(base)) {
        return quick_part(base, name);
    }
    if (is_special_name(name)) {
        return NULL;
    }
    if (PyModule_CheckExact(base)) {
        PyObject *namespace = PyModule_GetDict(base);
        return is_plain_lookup(namespace, name) ? find_key(namespace, name, place) : NULL;
    }
    if (!PyType_CheckExact(base)) {
        return NULL;
    }
    PyObject *entry = _PyType_Lookup((PyTypeObject *)base, name);
    return entry != NULL && (PyFunction_Check(entry) || Py_TYPE(entry)->tp_descr_get == NULL) ? entry : NULL;
}

static inline PyObject *
quick_item(PyObject *base, PyObject *key, int place)
{
    if (PyDict_Check(base)) {
        return dictionary_at(base, key, place);
    }
    if ((!PyTuple_Check(base) && !PyList_Check(base)) || !PyLong_CheckExact(key)) {
        return NULL;
    }
    Py_ssize_t index = PyLong_AsSsize_t(key);
    return index >= 0 && index < Py_SIZE(base) ? PySequence_Fast_ITEMS(base)[index] : NULL;
}

static inline bool
is_plain_constant(PyObject *value)
{
    return PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyUnicode_CheckExact(value) || PyBytes_CheckExact(value)
        || PyBool_Check(value) || value == Py_None;
}

static inline int
quick_equal(PyObject *value, PyObject *expected)
{
    if (value == expected) {
        return 1;
    }
    return is_plain_constant(value) && is_plain_constant(expected) ? constants_equal(value, expected) : UNSURE;
}

/* OrderedDict and the like inherit dict's own length. */
static inline int
quick_length(PyObject *value, Py_ssize_t length)
{
    PyMappingMethods *methods = Py_TYPE(value)->tp_as_mapping;
    if (PyTuple_Check(value) || PyList_CheckExact(value)) {
        return Py_SIZE(value) == length;
    }
    bool counts_items = PyDict_Check(value) && methods != NULL && methods->mp_length == PyDict_Type.tp_as_mapping->mp_length;
    return counts_items ? PyDict_GET_SIZE(value) == length : UNSURE;
}

static inline int
quick_empty_at(PyObject *dictionary, const KeyPlaces *keys)
{
    if (!PyDict_Check(dictionary)) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < keys->count; i++) {
        PyObject *found = dictionary_at(dictionary, keys->names[i], keys->places[i]);
        if (found == NULL) {
            return UNSURE;
        }
        if (!PyDict_Check(found) || PyDict_GET_SIZE(found) != 0) {
            return 0;
        }
    }
    return 1;
}

static inline int
quick_no_key(PyObject *dictionary, Instruction *instruction)
{
    if (PyDict_Check(dictionary) && was_without_key(dictionary, instruction->version)) {
        return 1;
    }
    return is_plain_lookup(dictionary, instruction->object)
        ? check_no_key(dictionary, instruction->object, &instruction->version) : UNSURE;
}

static inline int
quick_truth(PyObject *value, int wanted)
{
    if (!is_plain_constant(value) && !PyTuple_CheckExact(value) && !PyList_CheckExact(value) && !PyDict_CheckExact(value)) {
        return UNSURE;
    }
    return PyObject_IsTrue(value) == wanted;
}

/* Borrowed, because the interpreter keeps small ints for good; NULL for others. */
static inline PyObject *
quick_extent(PyObject *tensor, const Instruction *instruction)
{
    enum { KEPT = 256 };
    int64_t found;
    if (!extent_of(tensor, instruction->object, instruction->operation == LOAD_STRIDE, instruction->second, &found) || found > KEPT) {
        return NULL;
    }
    PyObject *number = PyLong_FromLongLong(found);
    Py_XDECREF(number);
    return number;
}

/* A load: borrowed, NULL where it is not sure. Nothing that is found here is a new object. */
static inline PyObject *
quick_load(const GuardRun *run, Instruction *instruction, PyObject *base)
{
    PyObject *operand = instruction->object;
    switch (instruction->operation) {
    case LOAD_KEY:
        return quick_key(base, operand, instruction->place);
    case LOAD_DICTIONARY:
        return dictionary_at_hand(base);
    case LOAD_ITEM:
        return quick_item(base, operand, instruction->place);
    case LOAD_NTH_KEY:
        return nth_key(base, instruction->second);
    case LOAD_KEYED: {
        PyObject *key = value_of(run, instruction->second);
        return key == NULL ? NULL : quick_key(base, key, instruction->place);
    }
    case LOAD_TYPE:
        return (PyObject *)Py_TYPE(base);
    case LOAD_SIZE: case LOAD_STRIDE:
        return quick_extent(base, instruction);
    case LOAD_ATTRIBUTE:
        return quick_attribute(base, operand, &instruction->place);
    case LOAD_GLOBAL:
        return quick_global(run->function, operand, &instruction->place);
    case LOAD_CONSTANT:
        return operand;
    default:
        return NULL;
    }
}

/* A check: 1, 0, UNSURE, or -1 with an exception. */
static inline int
quick_check(const GuardRun *run, Instruction *instruction, PyObject *value)
{
    PyObject *operand = instruction->object;
    const StateFacts *state = instruction->data;
    switch (instruction->operation) {
    case CHECK_TYPE:
        return (PyObject *)Py_TYPE(value) == operand;
    case CHECK_TENSOR:
        return tensor_matches(value, instruction->data);
    case CHECK_EMPTY_AT:
        return quick_empty_at(value, instruction->data);
    case CHECK_NO_KEY:
        return quick_no_key(value, instruction);
    case CHECK_EQUAL:
        return quick_equal(value, operand);
    case CHECK_LENGTH:
        return quick_length(value, instruction->second);
    case CHECK_KEYS:
        return has_plain_keys(value) && !PyODict_Check(value) ? check_keys(value, operand) : UNSURE;
    case CHECK_TRUE: case CHECK_FALSE:
        return quick_truth(value, instruction->operation == CHECK_TRUE);
    case CHECK_IDENTITY: case CHECK_WEAK_IDENTITY: case CHECK_SAME: case CHECK_NOT_SAME:
        return check(run, instruction);
    case CHECK_NO_KEYS:
        return has_plain_keys(value) ? has_none_of(value, operand, &instruction->version) : UNSURE;
    case CHECK_RELATIONS:
        return relations_hold(run, instruction->data);
    case CHECK_APART:
        return are_apart(run, instruction->data);
    case CHECK_LEAF:
        return is_own_leaf(value, PyTuple_GET_ITEM(operand, 1));
    case CHECK_WORLD:
        return world_holds(instruction->data);
    case CHECK_CALL:
        return run->made > 0 ? UNSURE : call_returns(operand);
    case CHECK_STATE:
        return state->asks_python && run->made > 0 ? UNSURE : state_holds(state);
    default:
        return UNSURE;
    }
}

/* 1, 0, -1 as a check; UNSURE with *next at the instruction that is not sure. */
static inline int
run_borrowing(const GuardProgram *program, GuardRun *run, Instruction **next)
{
    const Instruction *end = program->instructions + program->count;
    for (Instruction *instruction = program->instructions; instruction < end; instruction++) {
        PyObject *value = has_source(instruction) ? value_of(run, instruction->source) : Py_None;
        int answer;
        if (value == NULL) {
            answer = UNSURE;
        } else if (instruction->operation < CHECK_TYPE) {
            PyObject *loaded = quick_load(run, instruction, value);
            run->registers[run->made] = loaded;
            run->made += loaded != NULL;
            answer = loaded != NULL ? 1 : UNSURE;
        } else {
            answer = quick_check(run, instruction, value);
        }
        if (answer != 1) {
            *next = instruction;
            return answer;
        }
    }
    return 1;
}
