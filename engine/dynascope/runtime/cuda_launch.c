/* Launches compiled CUDA kernels: one Python call reads every tensor's pointer and starts all kernels of a plan.

       module.open_driver()                          find libcuda, once
       module.read_tensors(tensor, ...)              learn where a tensor keeps its data, checked against the tensor
       handle = module.load(cubin, name, shared, device)
       plan = module.LaunchPlan(slots, launches, device, stream_of, workspace_of, misaligned)
       plan(x, y, out, 3)                            None; the kernels are in the device's current stream

   The driver is opened at run time, so that this builds where there is no CUDA at all. No CUDA header is used: the few
   prototypes below are those of the driver's documented, stable interface.
*/
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int Status;
typedef int Device;
typedef void *Context;
typedef void *Module;
typedef void *Function;
typedef void *Stream;

enum { SHARED_OPT_IN = 97, FUNCTION_SHARED_BYTES = 1, FUNCTION_MAXIMUM_DYNAMIC_SHARED = 8, SHARED_WITHOUT_OPT_IN = 49152 };
enum { MOST_PARAMETERS = 512, MOST_WORKSPACES = 16 };

static struct {
    Status (*init)(unsigned);
    Status (*error_name)(Status, const char **);
    Status (*error_text)(Status, const char **);
    Status (*device)(Device *, int);
    Status (*device_attribute)(int *, int, Device);
    Status (*retain)(Context *, Device);
    Status (*current)(Context *);
    Status (*push)(Context);
    Status (*pop)(Context *);
    Status (*load)(Module *, const void *);
    Status (*function)(Function *, Module, const char *);
    Status (*get_attribute)(int *, int, Function);
    Status (*set_attribute)(Function, int, int);
    Status (*launch)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void **, void **);
} driver;

static int driver_is_open;

static const struct {
    const char *name;
    void **place;
} driver_symbols[] = {
    {"cuInit", (void **)&driver.init},
    {"cuGetErrorName", (void **)&driver.error_name},
    {"cuGetErrorString", (void **)&driver.error_text},
    {"cuDeviceGet", (void **)&driver.device},
    {"cuDeviceGetAttribute", (void **)&driver.device_attribute},
    {"cuDevicePrimaryCtxRetain", (void **)&driver.retain},
    {"cuCtxGetCurrent", (void **)&driver.current},
    {"cuCtxPushCurrent_v2", (void **)&driver.push},
    {"cuCtxPopCurrent_v2", (void **)&driver.pop},
    {"cuModuleLoadData", (void **)&driver.load},
    {"cuModuleGetFunction", (void **)&driver.function},
    {"cuFuncGetAttribute", (void **)&driver.get_attribute},
    {"cuFuncSetAttribute", (void **)&driver.set_attribute},
    {"cuLaunchKernel", (void **)&driver.launch},
};

static PyObject *failed(const char *step, const char *what, Status status)
{
    const char *name = "unknown error", *text = "the driver has no words for it";
    driver.error_name(status, &name);
    driver.error_text(status, &text);
    PyErr_Format(PyExc_RuntimeError, "CUDA could not %s%s%s: %s (%s)", step, *what ? " " : "", what, text, name);
    return NULL;
}

static PyObject *open_driver(PyObject *self, PyObject *unused)
{
    if (driver_is_open)
        Py_RETURN_NONE;
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        return PyErr_Format(PyExc_OSError, "the CUDA driver is not there: %s", dlerror());
    for (size_t i = 0; i < sizeof driver_symbols / sizeof *driver_symbols; i++) {
        *driver_symbols[i].place = dlsym(library, driver_symbols[i].name);
        if (!*driver_symbols[i].place)
            return PyErr_Format(PyExc_OSError, "the CUDA driver has no %s", driver_symbols[i].name);
    }
    Status status = driver.init(0);
    if (status)
        return failed("start", "", status);
    driver_is_open = 1;
    Py_RETURN_NONE;
}

/* ---- where a tensor keeps its data ---- */

static struct {
    PyTypeObject *type;
    Py_ssize_t offset; /* of the at::Tensor in the Python object */
    int (*data)(void *tensor, void **pointer);
} tensors;

static PyObject *data_ptr_name;

/* read_tensors(tensor, TensorBase, path of libtorch_cpu, _cdata, data_ptr): True when pointers can be read without Python. The place is
   found by the address of the tensor's implementation, which Python tells as `_cdata`; nothing is guessed. */
static PyObject *read_tensors(PyObject *self, PyObject *arguments)
{
    PyObject *tensor, *type;
    const char *path;
    unsigned long long implementation, pointer;
    if (!PyArg_ParseTuple(arguments, "OO!sKK", &tensor, &PyType_Type, &type, &path, &implementation, &pointer))
        return NULL;
    void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    int (*data)(void *, void **) = library ? (int (*)(void *, void **))dlsym(library, "aoti_torch_get_data_ptr") : NULL;
    for (Py_ssize_t offset = 16; data && offset + 8 <= Py_TYPE(tensor)->tp_basicsize && offset <= 32; offset += 8) {
        uint64_t word;
        void *found = NULL;
        memcpy(&word, (char *)tensor + offset, 8);
        if (word != implementation)
            continue;
        if (data((char *)tensor + offset, &found) || (unsigned long long)(uintptr_t)found != pointer)
            break;
        Py_INCREF(type);
        tensors.type = (PyTypeObject *)type;
        tensors.offset = offset;
        tensors.data = data;
        Py_RETURN_TRUE;
    }
    Py_RETURN_FALSE;
}

static int pointer_of(PyObject *object, uint64_t *pointer)
{
    if (tensors.data && PyObject_TypeCheck(object, tensors.type)) {
        void *found;
        if (!tensors.data((char *)object + tensors.offset, &found)) {
            *pointer = (uint64_t)(uintptr_t)found;
            return 0;
        }
    }
    PyObject *number = PyObject_CallMethodNoArgs(object, data_ptr_name);
    if (!number)
        return -1;
    *pointer = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    return PyErr_Occurred() ? -1 : 0;
}

/* ---- loading ---- */

static Status enter(int device, Context *entered)
{
    Device handle;
    Context wanted, now = NULL;
    Status status = driver.device(&handle, device);
    *entered = NULL;
    if (status || (status = driver.retain(&wanted, handle)) || (status = driver.current(&now)))
        return status;
    if (now == wanted)
        return 0;
    *entered = wanted;
    return driver.push(wanted);
}

static void leave(Context entered)
{
    Context unused;
    if (entered)
        driver.pop(&unused);
}

static Status allow_shared(Function function, int shared, int device)
{
    int most, fixed;
    Device handle;
    Status status;
    if (shared <= SHARED_WITHOUT_OPT_IN)
        return 0;
    if ((status = driver.device(&handle, device)) || (status = driver.device_attribute(&most, SHARED_OPT_IN, handle)))
        return status;
    if ((status = driver.get_attribute(&fixed, FUNCTION_SHARED_BYTES, function)))
        return status;
    return driver.set_attribute(function, FUNCTION_MAXIMUM_DYNAMIC_SHARED, most - fixed);
}

/* load(cubin, name, dynamic shared bytes, device): the function's handle. Modules stay loaded until the process ends:
   a kernel may still be running, or be in somebody's CUDA graph, when the last Python reference goes. */
static PyObject *load(PyObject *self, PyObject *arguments)
{
    const char *binary, *name;
    Py_ssize_t size;
    int shared, device;
    Context entered;
    Module module;
    Function function = NULL;
    if (!PyArg_ParseTuple(arguments, "y#sii", &binary, &size, &name, &shared, &device))
        return NULL;
    if (!driver_is_open)
        return PyErr_Format(PyExc_RuntimeError, "the CUDA driver is not open");
    Status status = enter(device, &entered);
    if (status)
        return failed("use the device for", name, status);
    status = driver.load(&module, binary);
    if (!status)
        status = driver.function(&function, module, name);
    if (!status)
        status = allow_shared(function, shared, device);
    leave(entered);
    return status ? failed("load the kernel", name, status) : PyLong_FromVoidPtr(function);
}

/* ---- plans ---- */

typedef struct {
    Function function;
    unsigned grid[3], threads, shared;
    int first, count; /* its parameters, in `parameters` of the plan */
    int step_count;   /* of the program that computes grid[0]; 0 where it never changes */
    int64_t *steps;
    char name[64];
} Launch;

typedef struct {
    Stream stream;
    PyObject *owner; /* the tensor */
    uint64_t pointer;
} Workspace;

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    int device, slot_count, launch_count, allocated, workspace_count;
    Context context;
    /* Of slots: 'p' an aligned pointer, 'q' any pointer, 'm', '8', '4' and '2' an int64 that is a multiple of 16, 8, 4 or 2, 'i' any, 'd' a double, 'w' the workspace */
    char *kinds;
    int *parameters;
    Launch *launches;
    PyObject *device_number, *stream_of, *workspace_of, *misaligned;
    Workspace workspaces[MOST_WORKSPACES];
} LaunchPlan;

static int find_workspace(LaunchPlan *plan, Stream stream, uint64_t *pointer)
{
    for (int i = 0; i < plan->workspace_count; i++)
        if (plan->workspaces[i].stream == stream) {
            *pointer = plan->workspaces[i].pointer;
            return 0;
        }
    /* Kernels of two streams may run at once, so each stream has counters of its own. */
    PyObject *owner = PyObject_CallNoArgs(plan->workspace_of);
    if (!owner)
        return -1;
    if (pointer_of(owner, pointer)) {
        Py_DECREF(owner);
        return -1;
    }
    if (plan->workspace_count == MOST_WORKSPACES) {
        Py_DECREF(plan->workspaces[0].owner);
        memmove(plan->workspaces, plan->workspaces + 1, (MOST_WORKSPACES - 1) * sizeof(Workspace));
        plan->workspace_count--;
    }
    plan->workspaces[plan->workspace_count++] = (Workspace){stream, owner, *pointer};
    return 0;
}

/* Fills `values` from the arguments. 0, or -1 with an error set, or 1 where a pointer or a number is not as the kernels expect. */
static int read_arguments(LaunchPlan *plan, PyObject *const *arguments, Py_ssize_t count, Stream stream, uint64_t *values)
{
    Py_ssize_t next = 0;
    int misaligned = 0;
    for (int slot = 0; slot < plan->slot_count; slot++) {
        char kind = plan->kinds[slot];
        int wrong = 0;
        if (kind == 'w') {
            if (find_workspace(plan, stream, &values[slot]))
                return -1;
            continue;
        }
        if (next == count) {
            PyErr_Format(PyExc_TypeError, "a launch plan of %d arguments got %zd", plan->slot_count, count);
            return -1;
        }
        PyObject *argument = arguments[next++];
        if (kind == 'p' || kind == 'q') {
            wrong = pointer_of(argument, &values[slot]);
            misaligned |= kind == 'p' && (values[slot] & 15);
        } else if (kind != 'd') {
            int64_t number = PyLong_AsLongLong(argument);
            int beyond = kind == 'i' ? 0 : kind == 'm' ? 15 : kind - '1';  /* a mask of what a multiple has none of */
            wrong = number == -1 && PyErr_Occurred();
            misaligned |= (number & beyond) != 0;
            memcpy(&values[slot], &number, 8);
        } else {
            double number = PyFloat_AsDouble(argument);
            wrong = number == -1.0 && PyErr_Occurred();
            memcpy(&values[slot], &number, 8);
        }
        if (wrong)
            return -1;
    }
    if (next != count) {
        PyErr_Format(PyExc_TypeError, "a launch plan of %zd arguments got %zd", next, count);
        return -1;
    }
    return misaligned;
}

enum { PUSH, READ, ADD, MULTIPLY, QUOTIENT, REMAINDER, MOST_DEPTH = 64 };

/* How many programs a launch has, from the values of the slots. Steps are pairs: an operation and its number. */
static int64_t programs_of(const Launch *launch, const uint64_t *values)
{
    int64_t stack[MOST_DEPTH], *top = stack;
    for (int i = 0; i < launch->step_count; i++) {
        int64_t number = launch->steps[2 * i + 1];
        switch (launch->steps[2 * i]) {
        case PUSH: *top++ = number; break;
        case READ: *top++ = (int64_t)values[number]; break;
        case ADD: top--; top[-1] += *top; break;
        case MULTIPLY: top--; top[-1] *= *top; break;
        case QUOTIENT: top--; top[-1] /= *top; break;
        default: top--; top[-1] %= *top;
        }
    }
    return stack[0];
}

static Status start(LaunchPlan *plan, Stream stream, uint64_t *values, int *at)
{
    static uint64_t nothing; /* Triton's scratch pointers: null where a kernel needs none */
    void *pointers[MOST_PARAMETERS];
    Context now = NULL, unused;
    Status status = driver.current(&now);
    int switched = !status && now != plan->context;
    if (switched)
        status = driver.push(plan->context);
    for (*at = 0; !status && *at < plan->launch_count; ++*at) {
        Launch *launch = &plan->launches[*at];
        unsigned programs = launch->step_count ? (unsigned)programs_of(launch, values) : launch->grid[0];
        if (!programs)
            continue; /* no element to work on */
        for (int i = 0; i < launch->count; i++) {
            int slot = plan->parameters[launch->first + i];
            pointers[i] = slot < 0 ? &nothing : &values[slot];
        }
        status = driver.launch(launch->function, programs, launch->grid[1], launch->grid[2], launch->threads, 1, 1,
                               launch->shared, stream, pointers, NULL);
    }
    if (switched)
        driver.pop(&unused);
    return status;
}

static PyObject *plan_call(PyObject *object, PyObject *const *arguments, size_t flags, PyObject *keywords)
{
    LaunchPlan *plan = (LaunchPlan *)object;
    uint64_t values[MOST_PARAMETERS];
    int at = 0;
    PyObject *number = PyObject_CallOneArg(plan->stream_of, plan->device_number);
    if (!number)
        return NULL;
    Stream stream = PyLong_AsVoidPtr(number);
    Py_DECREF(number);
    if (!stream && PyErr_Occurred())
        return NULL;
    int state = read_arguments(plan, arguments, PyVectorcall_NARGS(flags), stream, values);
    if (state < 0)
        return NULL;
    if (state > 0)
        return PyObject_Vectorcall(plan->misaligned, arguments, PyVectorcall_NARGS(flags), NULL);
    if (!driver_is_open)
        return PyErr_Format(PyExc_RuntimeError, "the CUDA driver is not open");
    Status status;
    Py_BEGIN_ALLOW_THREADS
    status = start(plan, stream, values, &at);
    Py_END_ALLOW_THREADS
    if (status)
        return failed("launch", at ? plan->launches[at - 1].name : "", status);
    Py_RETURN_NONE;
}

/* The program must leave one number, never take from an empty stack, and read slots that there are. */
static int check_steps(const LaunchPlan *plan, const Launch *launch)
{
    int depth = 0;
    for (int i = 0; i < launch->step_count; i++) {
        int64_t step = launch->steps[2 * i], number = launch->steps[2 * i + 1];
        depth += step == PUSH || step == READ ? 1 : -1;
        if (step < PUSH || step > REMAINDER || depth < 1 || depth > MOST_DEPTH ||
            (step == READ && (number < 0 || number >= plan->slot_count)))
            depth = 2, i = launch->step_count;
    }
    if (launch->step_count && depth != 1) {
        PyErr_Format(PyExc_ValueError, "kernel %s has a grid that cannot be computed", launch->name);
        return -1;
    }
    return 0;
}

static int add_launch(LaunchPlan *plan, PyObject *item, int index, int *parameter_count)
{
    Launch *launch = &plan->launches[index];
    unsigned long long function;
    const char *name, *steps = "";
    Py_ssize_t size = 0;
    PyObject *slots;
    if (!PyArg_ParseTuple(item, "Ks(III)IIO!|y#", &function, &name, &launch->grid[0], &launch->grid[1], &launch->grid[2],
                          &launch->threads, &launch->shared, &PyTuple_Type, &slots, &steps, &size))
        return -1;
    snprintf(launch->name, sizeof launch->name, "%s", name);
    launch->step_count = (int)(size / 16);
    launch->steps = PyMem_Malloc(size + 1);
    if (!launch->steps) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(launch->steps, steps, size);
    if (check_steps(plan, launch))
        return -1;
    launch->function = (Function)(uintptr_t)function;
    launch->first = *parameter_count;
    launch->count = (int)PyTuple_GET_SIZE(slots);
    if (launch->count > MOST_PARAMETERS) {
        PyErr_Format(PyExc_ValueError, "kernel %s has too many parameters", name);
        return -1;
    }
    int *grown = PyMem_Realloc(plan->parameters, sizeof(int) * (*parameter_count + launch->count + 1));
    if (!grown) {
        PyErr_NoMemory();
        return -1;
    }
    plan->parameters = grown;
    for (int i = 0; i < launch->count; i++) {
        long slot = PyLong_AsLong(PyTuple_GET_ITEM(slots, i));
        if (slot < -1 || slot >= plan->slot_count) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_ValueError, "kernel %s has no slot %ld", name, slot);
            return -1;
        }
        plan->parameters[(*parameter_count)++] = (int)slot;
    }
    return 0;
}

static int prepare(LaunchPlan *plan, const char *kinds, PyObject *launches)
{
    Device handle;
    int parameter_count = 0;
    plan->slot_count = (int)strlen(kinds);
    if (plan->slot_count > MOST_PARAMETERS || strspn(kinds, "pqm842idw") != (size_t)plan->slot_count) {
        PyErr_SetString(PyExc_ValueError, "the slots of a launch plan are at most 512 of p, q, m, 8, 4, 2, i, d, w");
        return -1;
    }
    plan->kinds = PyMem_Malloc(plan->slot_count + 1);
    plan->launches = PyMem_Calloc(PyList_GET_SIZE(launches) + 1, sizeof(Launch));
    if (!plan->kinds || !plan->launches) {
        PyErr_NoMemory();
        return -1;
    }
    strcpy(plan->kinds, kinds);
    plan->allocated = (int)PyList_GET_SIZE(launches);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(launches); i++, plan->launch_count++)
        if (add_launch(plan, PyList_GET_ITEM(launches, i), (int)i, &parameter_count))
            return -1;
    if (!driver_is_open)
        return 0;
    Status status = driver.device(&handle, plan->device);
    if (!status)
        status = driver.retain(&plan->context, handle);
    if (status)
        failed("use the device", "", status);
    return status ? -1 : 0;
}

static PyObject *plan_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    const char *kinds;
    PyObject *launches, *stream_of, *workspace_of, *misaligned;
    int device;
    if (!PyArg_ParseTuple(arguments, "sO!iOOO", &kinds, &PyList_Type, &launches, &device, &stream_of, &workspace_of,
                          &misaligned))
        return NULL;
    LaunchPlan *plan = (LaunchPlan *)type->tp_alloc(type, 0);
    if (!plan)
        return NULL;
    plan->call = plan_call;
    plan->device = device;
    plan->device_number = PyLong_FromLong(device);
    plan->stream_of = Py_NewRef(stream_of);
    plan->workspace_of = Py_NewRef(workspace_of);
    plan->misaligned = Py_NewRef(misaligned);
    if (!plan->device_number || prepare(plan, kinds, launches)) {
        Py_DECREF(plan);
        return NULL;
    }
    return (PyObject *)plan;
}

static int plan_traverse(PyObject *object, visitproc visit, void *arg)
{
    LaunchPlan *plan = (LaunchPlan *)object;
    Py_VISIT(plan->stream_of);
    Py_VISIT(plan->workspace_of);
    Py_VISIT(plan->misaligned);
    return 0;
}

static int plan_clear(PyObject *object)
{
    LaunchPlan *plan = (LaunchPlan *)object;
    Py_CLEAR(plan->stream_of);
    Py_CLEAR(plan->workspace_of);
    Py_CLEAR(plan->misaligned);
    return 0;
}

static void plan_dealloc(PyObject *object)
{
    LaunchPlan *plan = (LaunchPlan *)object;
    PyObject_GC_UnTrack(object);
    plan_clear(object);
    Py_XDECREF(plan->device_number);
    for (int i = 0; i < plan->workspace_count; i++)
        Py_DECREF(plan->workspaces[i].owner);
    for (int i = 0; plan->launches && i < plan->allocated; i++)
        PyMem_Free(plan->launches[i].steps);
    PyMem_Free(plan->kinds);
    PyMem_Free(plan->parameters);
    PyMem_Free(plan->launches);
    Py_TYPE(object)->tp_free(object);
}

static PyTypeObject LaunchPlanType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynascope_cuda_launch.LaunchPlan",
    .tp_basicsize = sizeof(LaunchPlan),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc = "LaunchPlan(slots, launches, device, stream_of, workspace_of, misaligned): call it to launch all kernels.",
    .tp_new = plan_new,
    .tp_dealloc = plan_dealloc,
    .tp_traverse = plan_traverse,
    .tp_clear = plan_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(LaunchPlan, call),
};

static PyObject *pointer(PyObject *self, PyObject *tensor)
{
    uint64_t found;
    return pointer_of(tensor, &found) ? NULL : PyLong_FromUnsignedLongLong(found);
}

static PyMethodDef methods[] = {
    {"open_driver", open_driver, METH_NOARGS, "Find libcuda; OSError where it is not there."},
    {"read_tensors", read_tensors, METH_VARARGS, "Learn to read data pointers without Python; False where that fails."},
    {"pointer", pointer, METH_O, "The data pointer of a tensor, as launches read it."},
    {"load", load, METH_VARARGS, "Load a cubin into a device's context; the handle of its function."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "dynascope_cuda_launch", NULL, -1, methods};

PyMODINIT_FUNC PyInit_dynascope_cuda_launch(void)
{
    PyObject *module = PyModule_Create(&definition);
    data_ptr_name = PyUnicode_InternFromString("data_ptr");
    if (!module || !data_ptr_name || PyType_Ready(&LaunchPlanType))
        return NULL;
    Py_INCREF(&LaunchPlanType);
    PyModule_AddObject(module, "LaunchPlan", (PyObject *)&LaunchPlanType);
    return module;
}
