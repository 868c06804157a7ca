/* Two reasons why compiled functions run as they were written: a debugger or tracer wants to see the program's own lines and calls, or
   somebody else is reading this thread's frames to compile them (torch.compile, while it runs what it compiles). */

static Py_ssize_t followed_calls;   /* how many calls would have run compiled, and did not because of a debugger */

static inline bool
is_followed(void)
{
    if (!thread_is_traced()) {
        return false;
    }
    followed_calls++;
    return true;
}

static PyObject *
hook_followed_calls(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromSsize_t(followed_calls);
}

static PyObject *evaluate(PyThreadState *thread, _PyInterpreterFrame *frame, int throwing);

/* Called without arguments where another frame evaluator is active. Debuggers evaluate frames too, and only look. */
static PyObject *tracer_test;

static __attribute__((noinline)) bool
ask_tracer(void)
{
    PyObject *answer = tracer_test == NULL ? NULL : PyObject_CallNoArgs(tracer_test);
    bool traced = answer != NULL && PyObject_IsTrue(answer) == 1;
    Py_XDECREF(answer);
    PyErr_Clear();
    return traced;
}

static inline bool
is_read_elsewhere(void)
{
    _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(PyThreadState_Get()->interp);
    return current != _PyEval_EvalFrameDefault && current != evaluate && ask_tracer();
}

static PyObject *
use_tracer_test(PyObject *module, PyObject *test)
{
    Py_XSETREF(tracer_test, Py_NewRef(test));
    Py_RETURN_NONE;
}
