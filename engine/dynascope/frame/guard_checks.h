/* ---- checks: 1, 0, or -1 with an exception ---- */

static int
check_length(PyObject *value, Py_ssize_t length)
{
    if (PyTuple_Check(value) || PyList_CheckExact(value)) {  /* whatever the `__len__` of a tuple's subclass says */
        return Py_SIZE(value) == length;
    }
    return PyObject_Size(value) == length;
}

/* `dictionary[key]` is an empty dict (or of a subclass, whatever its `__len__` says), for each of the keys. */
static int
check_empty_at(PyObject *dictionary, KeyPlaces *keys)
{
    for (Py_ssize_t i = 0; i < keys->count; i++) {
        PyObject *found = find_key(dictionary, keys->names[i], &keys->places[i]);
        if (found == NULL || !PyDict_Check(found) || PyDict_GET_SIZE(found) != 0) {
            return 0;
        }
    }
    return 1;
}

static KeyPlaces *
key_places(PyObject *operand)
{
    Py_ssize_t count = PyTuple_GET_SIZE(operand);
    KeyPlaces *keys = PyMem_Calloc(1, sizeof(KeyPlaces) + count * sizeof(int));
    if (keys == NULL) {
        return (KeyPlaces *)PyErr_NoMemory();
    }
    keys->count = count;
    keys->names = PySequence_Fast_ITEMS(operand);
    return keys;
}

/* An OrderedDict has an order of its own. */
static int
check_ordered_keys(PyObject *dictionary, PyObject *keys)
{
    PyObject *iterator = PyODict_Type.tp_iter(dictionary);
    int equal = iterator == NULL ? -1 : 1;
    for (Py_ssize_t i = 0; equal > 0 && i < PyTuple_GET_SIZE(keys); i++) {
        PyObject *key = PyIter_Next(iterator);
        equal = key != NULL ? constants_equal(key, PyTuple_GET_ITEM(keys, i)) : PyErr_Occurred() ? -1 : 0;
        Py_XDECREF(key);
    }
    Py_XDECREF(iterator);
    return equal;
}

static int
check_keys(PyObject *dictionary, PyObject *keys)
{
    if (!PyDict_Check(dictionary) || PyDict_GET_SIZE(dictionary) != PyTuple_GET_SIZE(keys)) {
        return 0;
    }
    if (PyODict_Check(dictionary)) {
        return check_ordered_keys(dictionary, keys);
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

/* No two states of any two dictionaries share a version: the same one means that nothing was written since. */
static inline bool
was_without_key(PyObject *dictionary, uint64_t version)
{
    return version != 0 && DICTIONARY_VERSION(dictionary) == version;
}

static int
check_no_key(PyObject *dictionary, PyObject *key, uint64_t *version)
{
    if (!PyDict_Check(dictionary)) {
        return 0;
    }
    if (was_without_key(dictionary, *version)) {
        return 1;
    }
    uint64_t now = DICTIONARY_VERSION(dictionary);
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

/* CHECK_LEAF: whether a tensor is a leaf of autograd and nobody's view. Operand: (operand of CHECK_PYTHON, the types that answer for
   themselves) */
static int
is_own_leaf(PyObject *tensor, PyObject *types)
{
    static PyObject *is_leaf, *is_view;
    bool is_plain = false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(types); i++) {
        is_plain |= (PyObject *)Py_TYPE(tensor) == PyTuple_GET_ITEM(types, i);
    }
    if (!is_plain) {
        return CHECK_UNSURE;
    }
    if (is_leaf == NULL) {
        is_leaf = PyUnicode_InternFromString("is_leaf");
        is_view = PyUnicode_InternFromString("_is_view");
    }
    PyObject *leaf = PyObject_GetAttr(tensor, is_leaf);
    PyObject *view = leaf == NULL ? NULL : PyObject_CallMethodNoArgs(tensor, is_view);
    int holds = view == NULL ? -1 : leaf == Py_True && view == Py_False;
    Py_XDECREF(leaf);
    Py_XDECREF(view);
    return holds;
}

static int
check(const GuardRun *run, Instruction *instruction)
{
    PyObject *operand = instruction->object;
    if (instruction->operation == CHECK_STATE) {
        return state_holds(instruction->data);
    }
    if (instruction->operation == CHECK_WORLD) {
        return world_holds(instruction->data);
    }
    if (instruction->operation == CHECK_CALL) {
        return call_returns(operand);
    }
    if (instruction->operation == CHECK_PYTHON) {
        return check_python(run, operand);
    }
    if (instruction->operation == CHECK_RELATIONS) {
        int holds = relations_hold(run, instruction->data);
        return holds != CHECK_UNSURE ? holds : check_python(run, PyTuple_GET_ITEM(operand, 0));
    }
    if (instruction->operation == CHECK_APART) {
        int holds = are_apart(run, instruction->data);
        return holds != CHECK_UNSURE ? holds : check_python(run, PyTuple_GET_ITEM(operand, 0));
    }
    PyObject *value = value_of(run, instruction->source);
    if (value == NULL) {
        return 0;
    }
    switch (instruction->operation) {
    case CHECK_LEAF: {
        int holds = is_own_leaf(value, PyTuple_GET_ITEM(operand, 1));
        return holds != CHECK_UNSURE ? holds : check_python(run, PyTuple_GET_ITEM(operand, 0));
    }
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
        return check_empty_at(value, instruction->data);
    case CHECK_KEYS:
        return check_keys(value, operand);
    case CHECK_NO_KEY:
        return check_no_key(value, operand, &instruction->version);
    case CHECK_NO_KEYS:
        return PyDict_Check(value) ? has_none_of(value, operand, &instruction->version) : 0;
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
