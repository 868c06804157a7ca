/* What differs between CPython 3.11, 3.12 and 3.13. No other file names a version. */

#define Py_BUILD_CORE 1
#include <Python.h>
#include <structmember.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "internal/pycore_code.h"
#include "internal/pycore_frame.h"

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000
#error "this file knows the frames of CPython 3.11, 3.12 and 3.13"
#endif

#if PY_VERSION_HEX >= 0x030C0000
#define CALLEE_CLEARS_FRAME 1
/* What one evaluation takes off c_recursion_remaining (PY_EVAL_C_STACK_UNITS of ceval.c). */
#define EVALUATION_UNITS 2
#else
#define CALLEE_CLEARS_FRAME 0
#define EVALUATION_UNITS 0
#define PyUnstable_Eval_RequestCodeExtraIndex _PyEval_RequestCodeExtraIndex
#define PyUnstable_Code_GetExtra _PyCode_GetExtra
#define PyUnstable_Code_SetExtra _PyCode_SetExtra
#endif

static inline PyCodeObject *
frame_code(_PyInterpreterFrame *frame)
{
#if PY_VERSION_HEX >= 0x030D0000
    return (PyCodeObject *)frame->f_executable;
#else
    return frame->f_code;
#endif
}

static inline PyObject *
frame_function(_PyInterpreterFrame *frame)
{
#if PY_VERSION_HEX >= 0x030C0000
    return frame->f_funcobj;
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

/* Takes over the reference to `code`; the reference to the old code becomes the caller's. */
static inline void
frame_set_code(_PyInterpreterFrame *frame, PyCodeObject *code)
{
#if PY_VERSION_HEX >= 0x030D0000
    frame->f_executable = (PyObject *)code;
    frame->instr_ptr = _PyCode_CODE(code);
#else
    frame->f_code = code;
    frame->prev_instr = _PyCode_CODE(code) - 1;
#endif
    frame->stacktop = code->co_nlocalsplus;
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
#if PY_VERSION_HEX >= 0x030C0000
    thread->c_recursion_remaining += units;
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
