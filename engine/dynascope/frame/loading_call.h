/* LoadingCall: a function, and where its arguments are found. Compiled code calls it with what they hang on.

       LoadingCall(program, sources, function)     (self) -> function(self.fc1.weight, self.fc1.bias, ...)

   `program` only loads; `sources` are the arguments, as numbers of its slots and registers. */

typedef struct {
    PyObject_HEAD
    GuardProgram *program;
    PyObject *function;
    Py_ssize_t count;
    int *sources;
    vectorcallfunc vectorcall;
} LoadingCall;

/* Everything was there when the guards held: only another thread can have taken it away since. */
static PyObject *
refuse_load(void)
{
    if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_RuntimeError, "an object that the compiled function reads was changed during the call");
    }
    return NULL;
}

static PyObject *
call_with_sources(const LoadingCall *self, const GuardRun *run)
{
    PyObject *in_place[REGISTERS_IN_PLACE + 1];
    bool fits = self->count <= REGISTERS_IN_PLACE;
    PyObject **arguments = fits ? in_place : PyMem_Malloc((self->count + 1) * sizeof(PyObject *));
    if (arguments == NULL) {
        return PyErr_NoMemory();
    }
    arguments[0] = NULL;
    for (Py_ssize_t i = 0; i < self->count; i++) {
        arguments[i + 1] = Py_NewRef(value_of(run, self->sources[i]));
    }
    PyObject *result = PyObject_Vectorcall(self->function, arguments + 1, self->count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    for (Py_ssize_t i = 0; i < self->count; i++) {
        Py_DECREF(arguments[i + 1]);
    }
    if (!fits) {
        PyMem_Free(arguments);
    }
    return result;
}

static PyObject *
loading_vectorcall(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *keyword_names)
{
    LoadingCall *self = (LoadingCall *)callable;
    if (PyVectorcall_NARGS(flags) != self->program->slots || keyword_names != NULL) {
        PyErr_Format(PyExc_TypeError, "%d arguments are expected", self->program->slots);
        return NULL;
    }
    PyObject *in_place[REGISTERS_IN_PLACE], *result;
    GuardRun run;
    if (!start_run(&run, self->program, arguments, NULL, in_place)) {
        return PyErr_NoMemory();
    }
    Instruction *next = NULL;
    int found = run_borrowing(self->program, &run, &next);
    if (found == 1) {
        result = call_with_sources(self, &run);
    } else {
        own_registers(&run);
        found = run_owning(self->program, &run, next);
        result = found == 1 ? call_with_sources(self, &run) : refuse_load();
        release_registers(&run);
    }
    end_run(&run, in_place);
    return result;
}

/* ---- the Python type ---- */

static bool
only_loads(const GuardProgram *program)
{
    for (Py_ssize_t i = 0; i < program->count; i++) {
        int operation = program->instructions[i].operation;
        if (operation != LOAD_KEY && operation != LOAD_ITEM && operation != LOAD_DICTIONARY && operation != LOAD_SIZE
            && operation != LOAD_STRIDE) {
            return false;
        }
    }
    return true;
}

static int
parse_sources(LoadingCall *self, PyObject *sources)
{
    self->sources = PyMem_Malloc((PyTuple_GET_SIZE(sources) + 1) * sizeof(int));
    if (self->sources == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (self->count = 0; self->count < PyTuple_GET_SIZE(sources); self->count++) {
        int source = (int)PyLong_AsLong(PyTuple_GET_ITEM(sources, self->count));
        if (PyErr_Occurred() || !source_exists(self->program, source)) {
            PyErr_SetString(PyExc_ValueError, "no such source");
            return -1;
        }
        self->sources[self->count] = source;
    }
    return 0;
}

static PyObject *
loading_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *program, *sources, *function;
    if (!PyArg_ParseTuple(arguments, "O!O!O", &GuardProgramType, &program, &PyTuple_Type, &sources, &function)) {
        return NULL;
    }
    if (!only_loads((GuardProgram *)program)) {
        PyErr_SetString(PyExc_ValueError, "a program is expected that only loads keys, items, dictionaries and sizes");
        return NULL;
    }
    LoadingCall *self = (LoadingCall *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->program = (GuardProgram *)Py_NewRef(program);
    self->function = Py_NewRef(function);
    self->vectorcall = loading_vectorcall;
    if (parse_sources(self, sources) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int
loading_traverse(LoadingCall *self, visitproc visit, void *arg)
{
    Py_VISIT(self->program);
    Py_VISIT(self->function);
    return 0;
}

static void
loading_dealloc(LoadingCall *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->program);
    Py_XDECREF(self->function);
    PyMem_Free(self->sources);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMemberDef loading_members[] = {
    {"__wrapped__", T_OBJECT_EX, offsetof(LoadingCall, function), READONLY},
    {NULL},
};

static PyTypeObject LoadingCallType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynascope.frame.hook.LoadingCall",
    .tp_doc = "LoadingCall(program, sources, function): calls the function with what the program loads.",
    .tp_basicsize = sizeof(LoadingCall),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(LoadingCall, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = loading_new,
    .tp_traverse = (traverseproc)loading_traverse,
    .tp_dealloc = (destructor)loading_dealloc,
    .tp_members = loading_members,
};
