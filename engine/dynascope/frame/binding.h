/* Arguments to parameter slots, exactly as CPython binds them. Where Python would raise TypeError, the binding is refused:
   the original is then called, and Python itself says what is wrong. */

enum { SLOTS_IN_PLACE = 12 };

typedef enum { BOUND, REFUSED, BINDING_FAILED } BindingResult;

typedef struct {
    PyObject *const *slots;
    PyObject **own_slots;        /* with owned values: in_place, or allocated, or NULL where `slots` are the arguments themselves */
    int count;                   /* of own_slots */
    PyObject *rest;              /* the tuple of *args, in its slot */
    PyObject *keywords;          /* the dict of **kwargs, in its slot */
    PyObject *in_place[SLOTS_IN_PLACE];
} Binding;

static void
release_binding(Binding *binding)
{
    for (int i = 0; i < binding->count; i++) {
        Py_XDECREF(binding->own_slots[i]);
    }
    if (binding->own_slots != NULL && binding->own_slots != binding->in_place) {
        PyMem_Free(binding->own_slots);
    }
}

/* The parameter of that name, or -1; -2 with an exception. Names are interned nearly always. */
static int
find_parameter(const EntryTable *table, PyObject *names, PyObject *name)
{
    int end = table->positional + table->keyword_only;
    for (int i = table->positional_only; i < end; i++) {
        if (PyTuple_GET_ITEM(names, i) == name) {
            return i;
        }
    }
    for (int i = table->positional_only; i < end; i++) {
        int equal = PyObject_RichCompareBool(PyTuple_GET_ITEM(names, i), name, Py_EQ);
        if (equal != 0) {
            return equal < 0 ? -2 : i;
        }
    }
    return -1;
}

static BindingResult
bind_keyword(const EntryTable *table, Binding *binding, PyObject *names, PyObject *name, PyObject *value)
{
    if (!PyUnicode_Check(name)) {
        return REFUSED;
    }
    int index = find_parameter(table, names, name);
    if (index == -2) {
        return BINDING_FAILED;
    }
    if (index == -1) {
        if (binding->keywords == NULL) {
            return REFUSED;
        }
        return PyDict_SetItem(binding->keywords, name, value) < 0 ? BINDING_FAILED : BOUND;
    }
    if (binding->own_slots[index] != NULL) {
        return REFUSED;
    }
    binding->own_slots[index] = Py_NewRef(value);
    return BOUND;
}

static BindingResult
bind_defaults(const EntryTable *table, Binding *binding, PyObject *names, const PyFunctionObject *function)
{
    Py_ssize_t count = function->func_defaults == NULL ? 0 : PyTuple_GET_SIZE(function->func_defaults);
    for (int i = 0; i < table->positional; i++) {
        Py_ssize_t from = i - (table->positional - count);
        if (binding->own_slots[i] == NULL) {
            if (from < 0) {
                return REFUSED;
            }
            binding->own_slots[i] = Py_NewRef(PyTuple_GET_ITEM(function->func_defaults, from));
        }
    }
    for (int i = table->positional; i < table->positional + table->keyword_only; i++) {
        if (binding->own_slots[i] == NULL) {
            PyObject *defaults = function->func_kwdefaults;
            PyObject *value = defaults == NULL ? NULL : PyDict_GetItemWithError(defaults, PyTuple_GET_ITEM(names, i));
            if (value == NULL) {
                return PyErr_Occurred() ? BINDING_FAILED : REFUSED;
            }
            binding->own_slots[i] = Py_NewRef(value);
        }
    }
    return BOUND;
}

static int
make_variadic(const EntryTable *table, Binding *binding, PyObject *const *arguments, Py_ssize_t count)
{
    int next = table->positional + table->keyword_only;
    if (table->flags & CO_VARARGS) {
        Py_ssize_t extra = count > table->positional ? count - table->positional : 0;
        binding->rest = PyTuple_New(extra);
        if (binding->rest == NULL) {
            return -1;
        }
        for (Py_ssize_t i = 0; i < extra; i++) {
            PyTuple_SET_ITEM(binding->rest, i, Py_NewRef(arguments[table->positional + i]));
        }
        binding->own_slots[next++] = binding->rest;
    }
    if (table->flags & CO_VARKEYWORDS) {
        binding->keywords = PyDict_New();
        binding->own_slots[next] = binding->keywords;
        return binding->keywords == NULL ? -1 : 0;
    }
    return 0;
}

static BindingResult
bind_all(const EntryTable *table, Binding *binding, const PyFunctionObject *function, PyObject *const *arguments,
         Py_ssize_t count, PyObject *keyword_names)
{
    PyObject *names = ((PyCodeObject *)function->func_code)->co_localsplusnames;
    Py_ssize_t positional = count < table->positional ? count : table->positional;
    for (Py_ssize_t i = 0; i < positional; i++) {
        binding->own_slots[i] = Py_NewRef(arguments[i]);
    }
    if (make_variadic(table, binding, arguments, count) < 0) {
        return BINDING_FAILED;
    }
    if (count > table->positional && binding->rest == NULL) {
        return REFUSED;
    }
    Py_ssize_t keywords = keyword_names == NULL ? 0 : PyTuple_GET_SIZE(keyword_names);
    for (Py_ssize_t i = 0; i < keywords; i++) {
        BindingResult result = bind_keyword(table, binding, names, PyTuple_GET_ITEM(keyword_names, i), arguments[count + i]);
        if (result != BOUND) {
            return result;
        }
    }
    return bind_defaults(table, binding, names, function);
}

/* Whatever the result, release_binding() must follow. */
static inline BindingResult
bind_arguments(const EntryTable *table, Binding *binding, const PyFunctionObject *function, PyObject *const *arguments,
               Py_ssize_t count, PyObject *keyword_names)
{
    binding->rest = binding->keywords = NULL;
    binding->own_slots = NULL;
    binding->count = 0;
    if (keyword_names == NULL && count == table->slots && count == table->positional) {
        binding->slots = arguments;
        return BOUND;
    }
    binding->own_slots = binding->in_place;
    if (table->slots > SLOTS_IN_PLACE) {
        binding->own_slots = PyMem_Malloc(table->slots * sizeof(PyObject *));
        if (binding->own_slots == NULL) {
            PyErr_NoMemory();
            return BINDING_FAILED;
        }
    }
    memset(binding->own_slots, 0, table->slots * sizeof(PyObject *));
    binding->count = table->slots;
    binding->slots = binding->own_slots;
    return bind_all(table, binding, function, arguments, count, keyword_names);
}
