/* Where calls turn to compiled code. Two ways in, one set of entries and guards:

     Dispatcher      a callable in place of the user's function: no frame hook is active
     PEP 523 hook    for frames that are reached from elsewhere, while a thread watches

   One file to the compiler; the parts below read in this order. The GIL is held throughout; whatever can run Python
   (guards, on_miss, the drop of a reference) can also change tables, so references are taken before and nothing borrowed
   is used after. */

#include "versions.h"
#include "tensor_reader.h"
#include "state_reader.h"
#include "guard_values.h"
#include "world.h"
#include "relations.h"
#include "apart.h"
#include "guard_checks.h"
#include "guard_quick.h"
#include "guard_program.h"
#include "entries.h"
#include "binding.h"
#include "tail_call.h"
#include "traced.h"
#include "dispatcher.h"
#include "gated_method.h"
#include "loading_call.h"
#include "frame_swap.h"

static PyObject *
use_values(PyObject *module, PyObject *type)
{
    Py_XSETREF(values_type, Py_NewRef(type));
    Py_RETURN_NONE;
}

static PyMethodDef hook_functions[] = {
    {"watch", hook_watch, METH_O, "Ask choose(function) about each code entered in this thread, and serve the chosen ones."},
    {"unwatch", hook_unwatch, METH_NOARGS, "This thread watches no more."},
    {"forget", hook_forget, METH_O, "Ask again for a code object at its next frame."},
    {"foreign_evaluator", hook_foreign_evaluator, METH_NOARGS, "Whether another frame evaluator (torch.compile's) is active."},
    {"suspend", hook_suspend, METH_NOARGS, "No capture and no watching in this thread until resume()."},
    {"resume", hook_resume, METH_NOARGS, "Undo one suspend()."},
    {"followed_calls", hook_followed_calls, METH_NOARGS, "How many calls ran as they were written because a debugger looks on."},
    {"is_suspended", hook_is_suspended, METH_NOARGS, "Whether this thread's capture is off now."},
    {"tail_call", (PyCFunction)hook_tail_call, METH_FASTCALL, "Returned by compiled code: the call that takes its place."},
    {"complete", (PyCFunction)hook_complete, METH_FASTCALL, "Call compiled code, and what takes its place."},
    {"use_values", use_values, METH_O, "The type of a call's values: called with locals, globals, builtins, cells, variables."},
    {"use_tracer_test", use_tracer_test, METH_O, "What says whether another frame evaluator compiles this thread's frames."},
    {"configure_tensors", configure_tensors, METH_VARARGS, "Where a tensor's facts lie in memory."},
    {"try_probe", try_probe, METH_O, "Whether one probe of the global state answers as expected now."},
    {NULL},
};

static struct PyModuleDef hook_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dynascope_hook",
    .m_size = -1,
    .m_methods = hook_functions,
};

static int
add_operations(PyObject *module)
{
    PyObject *numbers = PyDict_New();
    for (int i = 0; numbers != NULL && i < OPERATION_COUNT; i++) {
        PyObject *number = PyLong_FromLong(i);
        if (number == NULL || PyDict_SetItemString(numbers, operation_names[i], number) < 0) {
            Py_CLEAR(numbers);
        }
        Py_XDECREF(number);
    }
    int added = numbers == NULL ? -1 : PyModule_AddObjectRef(module, "OPERATIONS", numbers);
    Py_XDECREF(numbers);
    return added;
}

static int
add_as_written(PyObject *module)
{
    as_written = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    return as_written == NULL ? -1 : PyModule_AddObjectRef(module, "AS_WRITTEN", as_written);
}

PyMODINIT_FUNC
PyInit_dynascope_hook(void)
{
    if (extra_index < 0) {
        extra_index = PyUnstable_Eval_RequestCodeExtraIndex(free_extra);
    }
    if (extra_index < 0) {
        PyErr_SetString(PyExc_RuntimeError, "the interpreter has no room for another user of code objects");
        return NULL;
    }
    PyObject *module = PyModule_Create(&hook_module);
    if (module == NULL || PyModule_AddType(module, &GuardProgramType) < 0 || PyModule_AddType(module, &EntryType) < 0
        || PyModule_AddType(module, &EntryTableType) < 0 || PyModule_AddType(module, &DispatcherType) < 0
        || PyModule_AddType(module, &GatedMethodType) < 0 || PyModule_AddType(module, &LoadingCallType) < 0
        || (complete_function = PyObject_GetAttrString(module, "complete")) == NULL || add_operations(module) < 0
        || PyType_Ready(&TailCallType) < 0 || add_as_written(module) < 0 || prepare_names() < 0
        || prepare_stub(&return_stub, "def stub(x): return x") < 0
        || prepare_stub(&raise_stub, raise_stub_text) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
