/* What differs between CPython 3.11, 3.12, 3.13 and 3.14. No other file names a version. */

#define _GNU_SOURCE 1
#define Py_BUILD_CORE 1
#include <Python.h>
#include <pthread.h>
#include <structmember.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "internal/pycore_code.h"
#include "internal/pycore_dict.h"
#include "internal/pycore_frame.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_object.h"

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030F0000
#error "this file knows the frames of CPython 3.11, 3.12, 3.13 and 3.14"
#endif

#if PY_VERSION_HEX >= 0x030E0000
#include "internal/pycore_interpframe.h"
#include "internal/pycore_tstate.h"
#define TAGGED_SLOTS 1
#else
#define TAGGED_SLOTS 0
#endif

#if PY_VERSION_HEX >= 0x030C0000
#define CALLEE_CLEARS_FRAME 1
/* What one evaluation takes off c_recursion_remaining (PY_EVAL_C_STACK_UNITS of ceval.c); 3.14 measures the stack itself. */
#define EVALUATION_UNITS 2
#else
#define CALLEE_CLEARS_FRAME 0
#define EVALUATION_UNITS 0
#define PyUnstable_Eval_RequestCodeExtraIndex _PyEval_RequestCodeExtraIndex
#define PyUnstable_Code_GetExtra _PyCode_GetExtra
#define PyUnstable_Code_SetExtra _PyCode_SetExtra
#endif

/* What a frame's slot holds: a reference, since 3.14 with a tag that says whether it is counted. */
#if TAGGED_SLOTS
typedef _PyStackRef FrameSlot;
#define EMPTY_SLOT PyStackRef_NULL
#define slot_object(slot) (PyStackRef_IsNull(slot) ? NULL : PyStackRef_AsPyObjectBorrow(slot))
/* Takes over the reference. */
#define slot_of(object) PyStackRef_FromPyObjectSteal(object)
#define slot_release(slot) PyStackRef_XCLOSE(slot)
#else
typedef PyObject *FrameSlot;
#define EMPTY_SLOT NULL
#define slot_object(slot) (slot)
#define slot_of(object) (object)
#define slot_release(slot) Py_XDECREF(slot)
#endif

static inline PyCodeObject *
frame_code(_PyInterpreterFrame *frame)
{
#if PY_VERSION_HEX >= 0x030D0000
    return (PyCodeObject *)slot_object(frame->f_executable);
#else
    return frame->f_code;
#endif
}

static inline PyObject *
frame_function(_PyInterpreterFrame *frame)
{
#if PY_VERSION_HEX >= 0x030C0000
    return slot_object(frame->f_funcobj);
#else
    return (PyObject *)frame->f_func;
#endif
}

static inline bool
frame_at_start(_PyInterpreterFrame *frame)
{
#if PY_VERSION_HEX >= 0x030D0000
    return frame->instr_ptr == _PyCode_CODE(frame_code(frame));
#else
    return frame->prev_instr == _PyCode_CODE(frame->f_code) - 1;
#endif
}

/* Takes over the reference to `code`; that to the old code, which is returned, becomes the caller's. */
static inline FrameSlot
frame_exchange_code(_PyInterpreterFrame *frame, PyCodeObject *code)
{
#if PY_VERSION_HEX >= 0x030D0000
    FrameSlot old = frame->f_executable;
    frame->f_executable = slot_of((PyObject *)code);
    frame->instr_ptr = _PyCode_CODE(code);
#else
    FrameSlot old = (PyObject *)frame->f_code;
    frame->f_code = code;
    frame->prev_instr = _PyCode_CODE(code) - 1;
#endif
#if TAGGED_SLOTS
    frame->stackpointer = frame->localsplus + code->co_nlocalsplus;
#else
    frame->stacktop = code->co_nlocalsplus;
#endif
    return old;
}

static inline Py_ssize_t
code_frame_size(PyCodeObject *code)
{
#if PY_VERSION_HEX >= 0x030C0000
    return code->co_framesize;
#else
    return code->co_nlocalsplus + code->co_stacksize + FRAME_SPECIALS_SIZE;
#endif
}

static inline void
lend_recursion(PyThreadState *thread, int units)
{
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030E0000
    thread->c_recursion_remaining += units;
#endif
}

/* Whether less than a third of the recursion that this thread may do is left. */
static inline bool
little_recursion_left(void)
{
    PyThreadState *thread = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030E0000
    _PyThreadStateImpl *stack = (_PyThreadStateImpl *)thread;
    uintptr_t here = (uintptr_t)&thread;
    return thread->py_recursion_remaining < thread->py_recursion_limit / 3
        || here < stack->c_stack_soft_limit + (stack->c_stack_top - stack->c_stack_soft_limit) / 3;
#elif PY_VERSION_HEX >= 0x030D0000
    return thread->py_recursion_remaining < thread->py_recursion_limit / 3
        || thread->c_recursion_remaining < Py_C_RECURSION_LIMIT / 3;
#elif PY_VERSION_HEX >= 0x030C0000
    return thread->py_recursion_remaining < thread->py_recursion_limit / 3
        || thread->c_recursion_remaining < C_RECURSION_LIMIT / 3;
#else
    return thread->recursion_remaining < thread->recursion_limit / 3;
#endif
}

/* A debugger or a coverage tool may look through `sys.monitoring`: it then has one of these two numbers, and asks for events of the code
   that it knows, which is the code as it was written. */
static inline bool
interpreter_is_monitored(PyInterpreterState *interpreter)
{
#if PY_VERSION_HEX >= 0x030C0000
    enum { DEBUGGER = 0, COVERAGE = 1 };
    return interpreter->monitoring_tool_names[DEBUGGER] != NULL || interpreter->monitoring_tool_names[COVERAGE] != NULL;
#else
    return false;
#endif
}

/* Whether a tracer (a debugger, coverage) or a profiler written in Python follows this thread. Profilers in C, such as cProfile
   and torch's own, measure what runs, and want it as it is. */
static inline bool
thread_is_traced(void)
{
    PyThreadState *thread = PyThreadState_Get();
    return thread->c_tracefunc != NULL
        || interpreter_is_monitored(thread->interp)
        || (thread->c_profilefunc != NULL && thread->c_profileobj != NULL && PyCallable_Check(thread->c_profileobj));
}

/* Two strings of one text need not be one object. `key` may be anything; the other one is a plain string. */
static __attribute__((noinline)) bool
is_same_text(PyObject *plain, PyObject *key)
{
    return plain != NULL && PyUnicode_CheckExact(key)
        && ((PyASCIIObject *)plain)->hash == ((PyASCIIObject *)key)->hash && PyUnicode_Compare(plain, key) == 0;
}

/* dictionary[key], borrowed; NULL without an exception where it is not there or the table is of another kind. `place` is
   where the key was in the table; what is found is proved to be the key's value, so that any guess is safe. */
static inline PyObject *
dictionary_at(PyObject *dictionary, PyObject *key, Py_ssize_t place)
{
    PyDictObject *table = (PyDictObject *)dictionary;
    PyDictKeysObject *keys = table->ma_keys;
    if (!DK_IS_UNICODE(keys) || place >= keys->dk_nentries) {
        return NULL;
    }
    PyDictUnicodeEntry *entry = &DK_UNICODE_ENTRIES(keys)[place];
    if (entry->me_key != key && !is_same_text(entry->me_key, key)) {
        return NULL;
    }
    return table->ma_values != NULL ? table->ma_values->values[place] : entry->me_value;
}

static inline Py_ssize_t
dictionary_places(PyObject *dictionary)
{
    return ((PyDictObject *)dictionary)->ma_keys->dk_nentries;
}

/* A number that every change of any dictionary makes anew; 0 where CPython keeps none (3.13 and later). */
#if PY_VERSION_HEX < 0x030D0000
#define DICTIONARY_VERSION(dictionary) (((PyDictObject *)(dictionary))->ma_version_tag)
#else
#define DICTIONARY_VERSION(dictionary) ((uint64_t)0)
/* They can be watched instead; see world.h. */
#define WATCHED_DICTIONARIES 1
#endif

/* Whether the interpreter is taking its modules down: Python that is called then may find its names gone. */
#if PY_VERSION_HEX >= 0x030D0000
#define IS_FINALIZING() Py_IsFinalizing()
#else
#define IS_FINALIZING() _Py_IsFinalizing()
#endif

/* The object's own `__dict__`, borrowed; NULL where it has none, or has none yet: it is made when it is first asked for. */
static inline PyObject *
dictionary_at_hand(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    if (!(type->tp_flags & Py_TPFLAGS_MANAGED_DICT)) {
        return type->tp_dictoffset > 0 && !PyType_Check(object) ? *(PyObject **)((char *)object + type->tp_dictoffset) : NULL;
    }
#if PY_VERSION_HEX >= 0x030D0000
    return (PyObject *)_PyObject_GetManagedDict(object);
#elif PY_VERSION_HEX >= 0x030C0000
    PyDictOrValues known = *_PyObject_DictOrValuesPointer(object);
    return _PyDictOrValues_IsValues(known) ? NULL : _PyDictOrValues_GetDict(known);
#else
    return *_PyObject_ManagedDictPointer(object);
#endif
}

/* The class's own namespace, borrowed. */
static inline PyObject *
type_namespace(PyTypeObject *type)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyObject *namespace = PyType_GetDict(type);
    Py_XDECREF(namespace);
    return namespace;
#else
    return type->tp_dict;
#endif
}
