/* Dispatcher: what a compiled function is to its callers. Binds, runs the guards, calls the entry's function.

   Choosing and calling are apart, so that the C stack of a deep recursion holds nothing of the choosing. */

typedef struct {
    PyObject_HEAD
    EntryTable *table;
    PyFunctionObject *function;  /* the user's */
    PyObject *chosen;            /* the Entry called last, owned; its function is `specialised` */
    PyObject *specialised;
    PyObject *dictionary;
    PyObject *weak_references;
    vectorcallfunc vectorcall;
} Dispatcher;

static PyTypeObject DispatcherType;

/* Which entry serves this call: 1, 0 for the original, -1. */
static int
choose_for_call(EntryTable *table, PyFunctionObject *function, PyObject *const *arguments, Py_ssize_t count,
                PyObject *keyword_names, Entry **found)
{
    Binding binding;
    int choice;
    switch (bind_arguments(table, &binding, function, arguments, count, keyword_names)) {
    case BOUND:
        choice = select_entry(table, binding.slots, function, found);
        break;
    case REFUSED:
        choice = 0;
        break;
    default:
        choice = -1;
    }
    release_binding(&binding);
    return choice;
}

/* A new reference; *cache keeps the function of the entry for the next call. */
static PyObject *
function_of(Entry *entry, PyFunctionObject *model, PyObject **cache)
{
    if (function_is_current(*cache, model)) {
        return Py_NewRef(*cache);
    }
    PyObject *made = function_like((PyObject *)entry->code, model);
    if (made != NULL) {
        Py_XSETREF(*cache, Py_NewRef(made));
    }
    return made;
}

/* Functions without a closure are kept by their entry, so that calls may alternate between entries at no cost. */
static PyObject *
dispatcher_function_of(Dispatcher *self, Entry *entry)
{
    if (self->function->func_closure == NULL) {
        return function_of(entry, self->function, &entry->function);
    }
    if ((PyObject *)entry != self->chosen) {
        Py_XSETREF(self->chosen, Py_NewRef((PyObject *)entry));
        Py_CLEAR(self->specialised);
    }
    return function_of(entry, self->function, &self->specialised);
}

static __attribute__((noinline)) PyObject *
dispatcher_choose(Dispatcher *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keyword_names)
{
    Entry *entry = NULL;
    EntryTable *table = (EntryTable *)Py_NewRef((PyObject *)self->table);
    int choice = choose_for_call(table, self->function, arguments, count, keyword_names, &entry);
    Py_DECREF(table);
    if (choice <= 0) {
        return choice < 0 ? NULL : Py_NewRef((PyObject *)self->function);
    }
    PyObject *function = dispatcher_function_of(self, entry);
    Py_DECREF(entry);
    return function;
}

static inline bool
wants_entries(const EntryTable *table, const PyFunctionObject *function)
{
    return suspended == 0 && !table->given_up && function->func_code == (PyObject *)table_code(table) && !is_followed()
        && !is_read_elsewhere();
}

/* A loop that breaks goes deeper at every turn. The original of a resumed region is the rest of the function, loop and all:
   it runs the turns that are left in one frame. */
static inline bool
must_stay_plain(const EntryTable *table)
{
    return table->resumed && little_recursion_left();
}

/* `function` is released; `original` is what it was compiled from. */
static PyObject *
call_and_release(PyObject *function, PyFunctionObject *original, PyObject *const *arguments, size_t count,
                 PyObject *keyword_names)
{
    if (function == NULL) {
        return NULL;
    }
    PyObject *result = ((PyFunctionObject *)function)->vectorcall(function, arguments, count, keyword_names);
    Py_DECREF(function);
    if (result == as_written) {
        Py_DECREF(result);
        result = original->vectorcall((PyObject *)original, arguments, count, keyword_names);
    }
    return result;
}

static PyObject *
dispatch(Dispatcher *self, PyObject *const *arguments, size_t count, PyObject *keyword_names)
{
    PyObject *function = wants_entries(self->table, self->function) && !must_stay_plain(self->table)
        ? dispatcher_choose(self, arguments, PyVectorcall_NARGS(count), keyword_names)
        : Py_NewRef((PyObject *)self->function);
    return call_and_release(function, self->function, arguments, count, keyword_names);
}

static PyObject *
dispatcher_vectorcall(PyObject *callable, PyObject *const *arguments, size_t count, PyObject *keyword_names)
{
    return followed(dispatch((Dispatcher *)callable, arguments, count, keyword_names));
}

static PyObject *
call_without_following(PyObject *callable, PyObject *const *arguments, size_t count)
{
    return Py_IS_TYPE(callable, &DispatcherType) ? dispatch((Dispatcher *)callable, arguments, count, NULL)
                                                 : PyObject_Vectorcall(callable, arguments, count, NULL);
}

/* ---- the same for table(function, *arguments): compiled code calls its resume functions so ---- */

static __attribute__((noinline)) PyObject *
table_choose(EntryTable *table, PyFunctionObject *function, PyObject *const *arguments, Py_ssize_t count,
             PyObject *keyword_names)
{
    Entry *entry = NULL;
    PyObject *none = NULL, *chosen;
    int choice = choose_for_call(table, function, arguments, count, keyword_names, &entry);
    if (choice <= 0) {
        return choice < 0 ? NULL : Py_NewRef((PyObject *)function);
    }
    /* A closure must not outlive its function through our cache. */
    chosen = function_of(entry, function, function->func_closure == NULL ? &entry->function : &none);
    Py_XDECREF(none);
    Py_DECREF(entry);
    return chosen;
}

static PyObject *
table_vectorcall(PyObject *callable, PyObject *const *arguments, size_t count, PyObject *keyword_names)
{
    EntryTable *table = (EntryTable *)callable;
    Py_ssize_t positional = PyVectorcall_NARGS(count);
    if (positional < 1 || !PyFunction_Check(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "the function to call is expected first");
        return NULL;
    }
    PyFunctionObject *function = (PyFunctionObject *)arguments[0];
    PyObject *chosen = wants_entries(table, function)
        ? table_choose(table, function, arguments + 1, positional - 1, keyword_names)
        : Py_NewRef((PyObject *)function);
    return followed(call_and_release(chosen, function, arguments + 1, (size_t)(positional - 1) | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                     keyword_names));
}

/* ---- the Python type ---- */

static PyObject *
table_bind(EntryTable *table, PyObject *function)
{
    if (!PyFunction_Check(function) || ((PyFunctionObject *)function)->func_code != (PyObject *)table_code(table)) {
        PyErr_SetString(PyExc_TypeError, "a function that has the table's code is expected");
        return NULL;
    }
    Dispatcher *self = PyObject_GC_New(Dispatcher, &DispatcherType);
    if (self == NULL) {
        return NULL;
    }
    self->table = (EntryTable *)Py_NewRef((PyObject *)table);
    self->function = (PyFunctionObject *)Py_NewRef(function);
    self->chosen = self->specialised = self->dictionary = self->weak_references = NULL;
    self->vectorcall = dispatcher_vectorcall;
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static int
dispatcher_traverse(Dispatcher *self, visitproc visit, void *arg)
{
    Py_VISIT(self->table);
    Py_VISIT(self->function);
    Py_VISIT(self->chosen);
    Py_VISIT(self->specialised);
    Py_VISIT(self->dictionary);
    return 0;
}

/* `table` and `function` stay: a dispatcher in a garbage cycle may still be called by a finaliser. */
static int
dispatcher_clear(Dispatcher *self)
{
    Py_CLEAR(self->chosen);
    Py_CLEAR(self->specialised);
    Py_CLEAR(self->dictionary);
    return 0;
}

static void
dispatcher_dealloc(Dispatcher *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weak_references != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    dispatcher_clear(self);
    Py_XDECREF(self->table);
    Py_XDECREF(self->function);
    PyObject_GC_Del(self);
}

static PyObject *
dispatcher_get(PyObject *self, PyObject *object, PyObject *Py_UNUSED(type))
{
    return object == NULL || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

/* What a dispatcher does not have itself (__defaults__, __code__, the user's own attributes) its function has. */
static PyObject *
dispatcher_getattro(PyObject *self, PyObject *name)
{
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        found = PyObject_GetAttr((PyObject *)((Dispatcher *)self)->function, name);
    }
    return found;
}

static PyObject *
dispatcher_repr(Dispatcher *self)
{
    return PyUnicode_FromFormat("<compiled %R>", self->function);
}

static PyObject *
dispatcher_get_of_function(Dispatcher *self, void *name)
{
    return PyObject_GetAttrString((PyObject *)self->function, name);
}

static int
dispatcher_set_of_function(Dispatcher *self, PyObject *value, void *name)
{
    return value == NULL ? PyObject_DelAttrString((PyObject *)self->function, name)
                         : PyObject_SetAttrString((PyObject *)self->function, name, value);
}

static PyObject *
dispatcher_copy(PyObject *self, PyObject *Py_UNUSED(memo))
{
    return Py_NewRef(self);
}

/* As functions are: by name. */
static PyObject *
dispatcher_reduce(Dispatcher *self, PyObject *Py_UNUSED(ignored))
{
    return Py_NewRef(self->function->func_qualname);
}

/* A compiled function is a function to whoever asks (`inspect.isfunction`, `isinstance`). */
static PyObject *
dispatcher_class(PyObject *Py_UNUSED(self), void *Py_UNUSED(name))
{
    return Py_NewRef((PyObject *)&PyFunction_Type);
}

static PyMethodDef dispatcher_methods[] = {
    {"__copy__", dispatcher_copy, METH_NOARGS, NULL},
    {"__deepcopy__", dispatcher_copy, METH_O, NULL},
    {"__reduce__", (PyCFunction)dispatcher_reduce, METH_NOARGS, NULL},
    {NULL},
};

static PyMemberDef dispatcher_members[] = {
    {"__wrapped__", T_OBJECT_EX, offsetof(Dispatcher, function), READONLY},
    {"table", T_OBJECT_EX, offsetof(Dispatcher, table), READONLY},
    {NULL},
};

#define OF_FUNCTION(name) {name, (getter)dispatcher_get_of_function, (setter)dispatcher_set_of_function, NULL, name}

static PyGetSetDef dispatcher_properties[] = {
    OF_FUNCTION("__name__"),
    OF_FUNCTION("__qualname__"),
    OF_FUNCTION("__module__"),
    OF_FUNCTION("__doc__"),
    OF_FUNCTION("__annotations__"),
    OF_FUNCTION("__defaults__"),
    OF_FUNCTION("__kwdefaults__"),
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict},
    {"__class__", dispatcher_class},
    {NULL},
};

static PyTypeObject DispatcherType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynascope.frame.hook.Dispatcher",
    .tp_basicsize = sizeof(Dispatcher),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR
              | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(Dispatcher, vectorcall),
    .tp_weaklistoffset = offsetof(Dispatcher, weak_references),
    .tp_dictoffset = offsetof(Dispatcher, dictionary),
    .tp_call = PyVectorcall_Call,
    .tp_traverse = (traverseproc)dispatcher_traverse,
    .tp_clear = (inquiry)dispatcher_clear,
    .tp_dealloc = (destructor)dispatcher_dealloc,
    .tp_descr_get = dispatcher_get,
    .tp_getattro = dispatcher_getattro,
    .tp_repr = (reprfunc)dispatcher_repr,
    .tp_methods = dispatcher_methods,
    .tp_members = dispatcher_members,
    .tp_getset = dispatcher_properties,
};
