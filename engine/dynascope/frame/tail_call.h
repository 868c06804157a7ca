/* What compiled code returns to be followed by another call in its place. At every moment the frames that a program can see
   are then those of its own functions, each of them once, however often one breaks.

       return tail_call(resume, y)     its frame goes; then resume(y) is called for it
       return AS_WRITTEN               its frame goes; then the function is called as it was written, with the same arguments

   Compiled code is called by dispatchers, by watched frames, and by `complete`: all of them follow.

   From CPython 3.14 on a step may leave a callable on the stack with nothing above it (LOAD_SPECIAL of a method that is bound
   already), which no call can carry. `complete` with the callable above it is the same pair: complete(f, x) calls f(x). */

typedef struct {
    PyObject_VAR_HEAD
    PyObject *items[];           /* room for the callee to use, the callable, its arguments */
} TailCall;

static PyTypeObject TailCallType;
static PyObject *as_written;
static PyObject *complete_function;

static PyObject *
hook_tail_call(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    if (count < 1) {
        PyErr_SetString(PyExc_TypeError, "a callable is expected");
        return NULL;
    }
    TailCall *made = PyObject_NewVar(TailCall, &TailCallType, count + 1);
    if (made == NULL) {
        return NULL;
    }
    made->items[0] = NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (arguments[i] == NULL) {
            made->items[i + 1] = made->items[i];
            made->items[i] = Py_NewRef(complete_function);
        }
        else {
            made->items[i + 1] = Py_NewRef(arguments[i]);
        }
    }
    return (PyObject *)made;
}

static void
tail_call_dealloc(TailCall *self)
{
    for (Py_ssize_t i = 1; i < Py_SIZE(self); i++) {
        Py_XDECREF(self->items[i]);
    }
    PyObject_Free(self);
}

static PyTypeObject TailCallType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynascope.frame.hook.TailCall",
    .tp_basicsize = sizeof(TailCall),
    .tp_itemsize = sizeof(PyObject *),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = (destructor)tail_call_dealloc,
};

static PyObject *call_without_following(PyObject *callable, PyObject *const *arguments, size_t count);

static __attribute__((noinline)) PyObject *
follow_tail_calls(PyObject *result)
{
    while (result != NULL && Py_IS_TYPE(result, &TailCallType)) {
        TailCall *next = (TailCall *)result;
        size_t count = (size_t)(Py_SIZE(next) - 2) | PY_VECTORCALL_ARGUMENTS_OFFSET;
        result = call_without_following(next->items[1], next->items + 2, count);
        Py_DECREF(next);
    }
    return result;
}

/* The program's own result, of what compiled code gave (owned). */
static inline PyObject *
followed(PyObject *result)
{
    return result != NULL && Py_IS_TYPE(result, &TailCallType) ? follow_tail_calls(result) : result;
}

static PyObject *
hook_complete(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    if (count < 1) {
        PyErr_SetString(PyExc_TypeError, "a callable is expected");
        return NULL;
    }
    return followed(PyObject_Vectorcall(arguments[0], arguments + 1, (size_t)(count - 1), NULL));
}
