/* The PEP 523 hook: frames of chosen code objects run through their tables, wherever they are called from.

   At its first instruction a frame holds its bound arguments and nothing else. Swapping the code under it there is all it
   takes: the interpreter then runs, clears and pops the frame as its own. Where that cannot be done (a generator: its frame
   moves to the heap by the size of the function's own code; no room in this chunk of the stack; code that may leave its place
   to another call) the entry is called as a function, and the frame is disposed of. */

static Py_ssize_t extra_index = -1;

/* What a code object's extra slot holds: an EntryTable, or one of these marks. */
static char never_mark, unchosen_mark;

static __thread PyObject *chooser;         /* while this thread watches */
static PyInterpreterState *watched_interpreter;
static _PyFrameEvalFunction previous_evaluator;
static int watchers;                       /* threads that watch */
static __thread int watching;

static PyCodeObject *return_stub, *raise_stub;   /* def stub(x): return x; one that raises x and leaves no line in its traceback */

static PyObject *evaluate(PyThreadState *, _PyInterpreterFrame *, int);

/* CPython calls this for the old value, when it is replaced and when the code dies. */
static void
free_extra(void *extra)
{
    if (extra != NULL && extra != &never_mark && extra != &unchosen_mark) {
        Py_DECREF((PyObject *)extra);
    }
}

static int
never_watch(PyObject *code)
{
    return PyUnstable_Code_SetExtra(code, extra_index, &never_mark);
}

/* ---- which table a code has ---- */

static EntryTable *
ask_chooser(PyObject *function)
{
    suspended++;
    PyObject *ask = Py_NewRef(chooser);
    PyObject *answer = PyObject_CallOneArg(ask, function);
    if (answer != NULL && answer != Py_None && !PyObject_TypeCheck(answer, &EntryTableType)) {
        PyErr_SetString(PyExc_TypeError, "choose must return an EntryTable or None");
        Py_CLEAR(answer);
    }
    if (answer == NULL) {
        /* The user's program goes on without us; the defect is shown. */
        PyErr_WriteUnraisable(ask);
    }
    suspended--;
    Py_DECREF(ask);
    if (answer == Py_None) {
        Py_CLEAR(answer);
    }
    return (EntryTable *)answer;
}

/* Borrowed from the code; NULL where its frames are none of ours. */
static EntryTable *
table_of(PyCodeObject *code, PyObject *function)
{
    void *extra = NULL;
    PyUnstable_Code_GetExtra((PyObject *)code, extra_index, &extra);
    if (extra == NULL) {
        EntryTable *table = chooser == NULL || IS_FINALIZING() ? NULL : ask_chooser(function);
        extra = table == NULL || table_code(table) != code ? (void *)&unchosen_mark : (void *)table;
        if (extra == &unchosen_mark) {
            Py_XDECREF(table);
        }
        if (PyUnstable_Code_SetExtra((PyObject *)code, extra_index, extra) < 0) {
            PyErr_Clear();
            free_extra(extra);
            return NULL;
        }
    }
    return extra == &never_mark || extra == &unchosen_mark ? NULL : extra;
}

/* ---- swapping and disposing ---- */

static bool
frame_has_room(PyThreadState *thread, _PyInterpreterFrame *frame, PyCodeObject *code)
{
    PyObject **start = (PyObject **)frame;
    return start + code_frame_size(frame_code(frame)) == thread->datastack_top
        && start + code_frame_size(code) < thread->datastack_limit;
}

/* frame_has_room() was asked. The first `kept` slots stay; the others must hold nothing. */
static void
swap_code(PyThreadState *thread, _PyInterpreterFrame *frame, PyCodeObject *code, int kept)
{
    PyObject **top = (PyObject **)frame + code_frame_size(code);
    for (int i = kept; i < code->co_nlocalsplus; i++) {
        frame->localsplus[i] = EMPTY_SLOT;
    }
    FrameSlot old = frame_exchange_code(frame, (PyCodeObject *)Py_NewRef((PyObject *)code));
    if (thread->datastack_top < top) {
        thread->datastack_top = top;
    }
    slot_release(old);
}

#if CALLEE_CLEARS_FRAME
/* Takes over the reference to `value`. */
static void
swap_to_stub(PyThreadState *thread, _PyInterpreterFrame *frame, PyCodeObject *stub, PyObject *value, int slots)
{
    for (int i = 0; i < slots; i++) {
        FrameSlot slot = frame->localsplus[i];
        frame->localsplus[i] = EMPTY_SLOT;
        slot_release(slot);
    }
    frame->localsplus[0] = slot_of(value);
    swap_code(thread, frame, stub, 1);
}

static PyObject *
take_exception(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL) {
        PyException_SetTraceback(value, traceback);
    }
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}
#endif

/* The frame is over: its result (owned) or, for NULL, its exception is known. True where the interpreter is to run the
   frame, which is a stub now; false where *result is to be returned as it is. */
static bool
finish_frame(PyThreadState *thread, _PyInterpreterFrame *frame, PyObject *answer, int slots, PyObject **result)
{
#if CALLEE_CLEARS_FRAME
    if (answer != NULL) {
        swap_to_stub(thread, frame, return_stub, answer, slots);
        return true;
    }
    swap_to_stub(thread, frame, raise_stub, take_exception(), slots);
    return true;
#else
    *result = answer;
    return false;
#endif
}

static bool
can_finish(PyThreadState *thread, _PyInterpreterFrame *frame)
{
#if CALLEE_CLEARS_FRAME
    return frame_has_room(thread, frame, return_stub) && frame_has_room(thread, frame, raise_stub);
#else
    return true;
#endif
}

/* Every parameter is passed by position; one that the frame does not hold any more cannot be (it holds all, at its start). */
static PyObject *
call_entry(Entry *entry, PyFunctionObject *model, PyObject *const *slots, int count)
{
    PyObject *code = positional_code(entry);
    if (code == NULL || never_watch(code) < 0) {
        return NULL;
    }
    PyObject *function = function_like(code, model);
    if (function == NULL) {
        return NULL;
    }
    PyObject *result = PyObject_Vectorcall(function, slots, count, NULL);
    Py_DECREF(function);
    return result;
}

/* ---- the hook ---- */

enum { GENERATORS = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE };

/* The frame's first slots as plain objects, borrowed: in the frame itself where they are kept so, else in `room`. */
static inline PyObject *const *
frame_arguments(_PyInterpreterFrame *frame, int slots, PyObject **room)
{
#if TAGGED_SLOTS
    for (int i = 0; i < slots; i++) {
        room[i] = slot_object(frame->localsplus[i]);
    }
    return room;
#else
    return frame->localsplus;
#endif
}

/* True where the interpreter is to run the frame, as it is now; false where *result is the frame's. */
static bool
run_entry(PyThreadState *thread, _PyInterpreterFrame *frame, PyObject *const *arguments, Entry *entry, int slots,
          PyObject **result)
{
    if (!entry->leaves && !(entry->code->co_flags & GENERATORS) && frame_has_room(thread, frame, entry->code)) {
        swap_code(thread, frame, entry->code, slots);
        return true;
    }
    PyObject *answer = call_entry(entry, (PyFunctionObject *)frame_function(frame), arguments, slots);
    if (answer == as_written) {
        /* The frame still holds its arguments, and its own code. */
        Py_DECREF(answer);
        return true;
    }
    return finish_frame(thread, frame, followed(answer), slots, result);
}

static __attribute__((noinline)) bool
consider_frame(PyThreadState *thread, _PyInterpreterFrame *frame, PyObject **result)
{
    PyCodeObject *code = frame_code(frame);
    PyObject *function = frame_function(frame);
    if (!(code->co_flags & CO_OPTIMIZED) || !PyFunction_Check(function)
        || ((PyFunctionObject *)function)->func_code != (PyObject *)code || !frame_at_start(frame)) {
        return true;
    }
    EntryTable *table = table_of(code, function);
    if (table == NULL || table->given_up || is_followed() || !can_finish(thread, frame)) {
        return true;
    }
    Entry *entry = NULL;
    int slots = table->slots;
#if TAGGED_SLOTS
    PyObject *room[slots + 1];
#else
    PyObject **room = NULL;
#endif
    PyObject *const *arguments = frame_arguments(frame, slots, room);
    Py_INCREF((PyObject *)table);
    int choice = select_entry(table, arguments, (PyFunctionObject *)function, &entry);
    Py_DECREF((PyObject *)table);
    if (choice == 0) {
        return true;
    }
    bool runs = choice < 0 ? finish_frame(thread, frame, NULL, slots, result) : run_entry(thread, frame, arguments, entry, slots, result);
    Py_XDECREF((PyObject *)entry);
    return runs;
}

/* Where this thread's C stack gets short. Each watched call takes some of it, and without a hook none would. */
static __thread char *stack_floor;

enum { STACK_MARGIN = 1 << 20 };

static __attribute__((noinline)) void
find_stack_floor(void)
{
    pthread_attr_t attributes;
    void *lowest = NULL;
    size_t size;
    /* Unknown: it is never short. Linux and glibc know. */
    stack_floor = (char *)1;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &lowest, &size) == 0) {
            stack_floor = (char *)lowest + (size / 4 < STACK_MARGIN ? size / 4 : STACK_MARGIN);
        }
        pthread_attr_destroy(&attributes);
    }
}

static inline bool
stack_is_short(const char *here)
{
    if (stack_floor == NULL) {
        find_stack_floor();
    }
    return here < stack_floor;
}

/* RecursionError, raised by the interpreter itself where it clears the frame (with none of its C recursion left). */
static __attribute__((noinline)) PyObject *
evaluate_refused(PyThreadState *thread, _PyInterpreterFrame *frame, int throwing)
{
#if TAGGED_SLOTS
    /* It measures the C stack itself, and clears the frame. */
    return previous_evaluator(thread, frame, throwing);
#elif CALLEE_CLEARS_FRAME
    int remaining = thread->c_recursion_remaining;
    thread->c_recursion_remaining = 0;
    PyObject *result = previous_evaluator(thread, frame, throwing);
    thread->c_recursion_remaining = remaining;
    return result;
#else
    if (frame->owner != FRAME_OWNED_BY_THREAD || throwing) {
        return previous_evaluator(thread, frame, throwing);
    }
    PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded while frames are watched");
    return NULL;
#endif
}

/* Deep recursions pass here: keep the C frame small, and lend what a C call costs while the stack has room for it. */
static PyObject *
evaluate(PyThreadState *thread, _PyInterpreterFrame *frame, int throwing)
{
    if (watching && !suspended && !throwing && frame->owner == FRAME_OWNED_BY_THREAD) {
        PyObject *result = NULL;
        if (!consider_frame(thread, frame, &result)) {
            return result;
        }
    }
    char here;
    if (stack_is_short(&here)) {
        return evaluate_refused(thread, frame, throwing);
    }
    lend_recursion(thread, EVALUATION_UNITS);
    PyObject *result = previous_evaluator(thread, frame, throwing);
    lend_recursion(thread, -EVALUATION_UNITS);
    return result;
}

/* ---- switching it on and off ---- */

static void
install(void)
{
    watched_interpreter = PyInterpreterState_Get();
    _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(watched_interpreter);
    if (current != evaluate) {
        previous_evaluator = current;
        _PyInterpreterState_SetEvalFrameFunc(watched_interpreter, evaluate);
    }
}

/* Somebody who came after us calls us as his previous one: then we stay, and pass every frame on. */
static void
uninstall(void)
{
    if (_PyInterpreterState_GetEvalFrameFunc(watched_interpreter) == evaluate) {
        _PyInterpreterState_SetEvalFrameFunc(watched_interpreter, previous_evaluator);
    }
}

static PyObject *
hook_watch(PyObject *module, PyObject *choose)
{
    if (choose != Py_None && !PyCallable_Check(choose)) {
        PyErr_SetString(PyExc_TypeError, "a callable is expected");
        return NULL;
    }
    Py_XSETREF(chooser, Py_NewRef(choose));
    if (!watching) {
        watching = 1;
        if (watchers++ == 0) {
            install();
        }
    }
    Py_RETURN_NONE;
}

static PyObject *
hook_unwatch(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    if (watching) {
        watching = 0;
        Py_CLEAR(chooser);
        if (--watchers == 0) {
            uninstall();
        }
    }
    Py_RETURN_NONE;
}

/* Forget what was chosen for a code: its next frame asks again. */
static PyObject *
hook_forget(PyObject *module, PyObject *code)
{
    if (!PyCode_Check(code)) {
        PyErr_SetString(PyExc_TypeError, "a code object is expected");
        return NULL;
    }
    if (PyUnstable_Code_SetExtra(code, extra_index, NULL) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
hook_foreign_evaluator(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
    bool nested = current == evaluate && previous_evaluator != _PyEval_EvalFrameDefault;
    return PyBool_FromLong(nested || (current != evaluate && current != _PyEval_EvalFrameDefault));
}

static PyObject *
hook_suspend(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    suspended++;
    Py_RETURN_NONE;
}

static PyObject *
hook_resume(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    suspended -= suspended > 0;
    Py_RETURN_NONE;
}

static PyObject *
hook_is_suspended(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    return PyBool_FromLong(suspended > 0);
}

/* `raise x` with RERAISE in place of RAISE_VARARGS. */
static const char raise_stub_text[] =
    "import opcode\n"
    "def stub(x): raise x\n"
    "raising, again = opcode.opmap['RAISE_VARARGS'], opcode.opmap['RERAISE']\n"
    "code = bytearray(stub.__code__.co_code)\n"
    "at = next(i for i in range(0, len(code), 2) if code[i] == raising)\n"
    "code[at:at + 2] = again, 0\n"
    "stub.__code__ = stub.__code__.replace(co_code=bytes(code))\n";

static int
prepare_stub(PyCodeObject **place, const char *text)
{
    PyObject *namespace = PyDict_New();
    PyObject *done = namespace == NULL ? NULL : PyRun_String(text, Py_file_input, namespace, namespace);
    PyObject *function = done == NULL ? NULL : PyDict_GetItemString(namespace, "stub");
    if (function != NULL) {
        *place = (PyCodeObject *)Py_NewRef(PyFunction_GET_CODE(function));
    }
    Py_XDECREF(done);
    Py_XDECREF(namespace);
    return function == NULL ? -1 : never_watch((PyObject *)*place);
}
