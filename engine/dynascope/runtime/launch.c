/* Calls generated kernels from Python: one object a kernel, with a vectorcall that reads data pointers in C.

   Launcher(address, kinds, items, work, checks, share)(tensor, tensor, 3, 0.5)

   kinds has a letter for each argument: t tensor, i int, f float. Where items and work vary from call to call, `share` is the
   address of the function that computes them from the arguments, and the two given are not used. Threads come from the OpenMP runtime that torch has
   loaded, and only when the work is worth them. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <dirent.h>
#include <pthread.h>
#include <stdint.h>

#define MOST_ARGUMENTS 256

typedef void (*Kernel)(void *const *, long, long);
typedef void (*Share)(void *const *, long *, double *);
typedef int (*ReadPointer)(void *, void **);
typedef void (*Parallel)(void (*)(void *), void *, unsigned, unsigned);
typedef int (*CountThreads)(void);

static ReadPointer read_pointer;
static Py_ssize_t tensor_offset; /* where a tensor object holds its at::Tensor; 0: ask the object */
static Parallel parallel;
static CountThreads count_threads;
static CountThreads this_thread;
static CountThreads is_parallel;
static CountThreads team_size;
static int alone_at_fork = 1; /* whether the process had no other thread when it was forked */
static PyObject *data_ptr_name;

typedef struct {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  Kernel kernel;
  Py_ssize_t count;
  long items;
  double work;
  Share share; /* says items and work of a call, where they vary */
  int checks;
  char kinds[MOST_ARGUMENTS];
} Launcher;

typedef struct {
  Kernel kernel;
  void *const *pointers;
  long items;
} Team;

/* Enough work for a second thread to pay for being woken: about 20 microseconds of one thread. */
static const double work_per_thread = 65536.0;
/* Above this the interpreter lock is released while the kernel runs. */
static const double work_without_lock = 1e6;

/* Each thread's share, by how many threads there are: OpenMP may give fewer than it was asked for. */
static void run_share(void *data) {
  Team *team = data;
  long me = this_thread(), threads = team_size();
  long begin = team->items * me / threads, end = team->items * (me + 1) / threads;
  if (begin < end) team->kernel(team->pointers, begin, end);
}

static void run(Launcher *self, void *const *pointers, long items, double work) {
  long threads = 1;
  if (parallel && work > 2 * work_per_thread && items > 1 && !(is_parallel && is_parallel())) {
    threads = count_threads();
    long useful = (long)(work / work_per_thread);
    if (threads > useful) threads = useful;
    if (threads > items) threads = items;
  }
  if (threads <= 1) {
    self->kernel(pointers, 0, items);
    return;
  }
  Team team = {self->kernel, pointers, items};
  parallel(run_share, &team, (unsigned)threads, 0);
}

/* A forked child has none of its parent's OpenMP threads, and would wait for them for ever. */
static void before_fork(void) {
  DIR *tasks = opendir("/proc/self/task");
  int count = 0;
  if (tasks) {
    for (struct dirent *task; (task = readdir(tasks));) count += task->d_name[0] != '.';
    closedir(tasks);
  }
  alone_at_fork = count == 1;
}

static void in_forked_child(void) {
  if (!alone_at_fork) parallel = NULL;
}

static int pointer_of(PyObject *tensor, void **pointer) {
  if (tensor_offset && read_pointer((char *)tensor + tensor_offset, pointer) == 0) return 0;
  PyObject *address = PyObject_CallMethodNoArgs(tensor, data_ptr_name);
  if (!address) return -1;
  *pointer = PyLong_AsVoidPtr(address);
  Py_DECREF(address);
  return PyErr_Occurred() ? -1 : 0;
}

/* Eager's exception of what reads: error is 1 + its number in READERS of loops/nodes.py, the index, size, dimension. */
static void raise_index_error(const int64_t *error) {
  long long index = error[1], size = error[2], dimension = error[3];
  switch (error[0]) {
    case 2: PyErr_SetString(PyExc_IndexError, "index out of range in self"); break;
    case 3: PyErr_Format(PyExc_RuntimeError, "INDICES element is out of DATA bounds, id=%lld axis_dim=%lld", index, size); break;
    case 5: PyErr_Format(PyExc_IndexError, "Target %lld is out of bounds.", index); break;
    case 6: PyErr_SetString(PyExc_RuntimeError, index < 0 ? "Class values must be non-negative."
                                                          : "Class values must be smaller than num_classes."); break;
    default: PyErr_Format(error[0] == 4 ? PyExc_RuntimeError : PyExc_IndexError,
                          "index %lld is out of bounds for dimension %lld with size %lld", index, dimension, size);
  }
}

static PyObject *launch(Launcher *self, PyObject *const *arguments, size_t flags, PyObject *keywords) {
  void *pointers[MOST_ARGUMENTS + 1];
  union { int64_t i; double f; } numbers[MOST_ARGUMENTS];
  int64_t error[4] = {0, 0, 0, 0};
  Py_ssize_t count = PyVectorcall_NARGS(flags);
  if (count != self->count || keywords) {
    PyErr_Format(PyExc_TypeError, "this kernel takes %zd arguments", self->count);
    return NULL;
  }
  for (Py_ssize_t k = 0; k < count; k++) {
    if (self->kinds[k] == 't') {
      if (pointer_of(arguments[k], &pointers[k])) return NULL;
      continue;
    }
    if (self->kinds[k] == 'i') numbers[k].i = PyLong_AsLongLong(arguments[k]);
    else numbers[k].f = PyFloat_AsDouble(arguments[k]);
    if (PyErr_Occurred()) return NULL;
    pointers[k] = &numbers[k];
  }
  pointers[count] = error;
  long items = self->items;
  double work = self->work;
  if (self->share) self->share(pointers, &items, &work);
  if (work > work_without_lock) {
    Py_BEGIN_ALLOW_THREADS
    run(self, pointers, items, work);
    Py_END_ALLOW_THREADS
  } else {
    run(self, pointers, items, work);
  }
  if (self->checks && error[0]) {
    raise_index_error(error);
    return NULL;
  }
  Py_RETURN_NONE;
}

static int launcher_init(Launcher *self, PyObject *arguments, PyObject *keywords) {
  unsigned long long address, share;
  const char *kinds;
  if (!PyArg_ParseTuple(arguments, "Ks#ldpK", &address, &kinds, &self->count, &self->items, &self->work, &self->checks, &share))
    return -1;
  if (self->count > MOST_ARGUMENTS) {
    PyErr_Format(PyExc_ValueError, "a kernel takes at most %d arguments", MOST_ARGUMENTS);
    return -1;
  }
  memcpy(self->kinds, kinds, self->count);
  self->kernel = (Kernel)(uintptr_t)address;
  self->share = (Share)(uintptr_t)share;
  self->vectorcall = (vectorcallfunc)launch;
  return 0;
}

static PyMemberDef launcher_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Launcher, vectorcall), READONLY, NULL},
    {NULL},
};

static PyType_Slot launcher_slots[] = {
    {Py_tp_init, launcher_init},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, launcher_members},
    {0, NULL},
};

static PyType_Spec launcher_type = {
    "dynascope_launch.Launcher", sizeof(Launcher), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, launcher_slots,
};

/* configure(read_pointer, parallel, count_threads, this_thread, is_parallel, team_size): addresses, 0 for what is
   missing. */
static PyObject *configure(PyObject *module, PyObject *arguments) {
  static int watches_forks;
  unsigned long long a, b, c, d, e, f;
  if (!PyArg_ParseTuple(arguments, "KKKKKK", &a, &b, &c, &d, &e, &f)) return NULL;
  read_pointer = (ReadPointer)(uintptr_t)a;
  parallel = b && c && d && f ? (Parallel)(uintptr_t)b : NULL;
  count_threads = (CountThreads)(uintptr_t)c;
  this_thread = (CountThreads)(uintptr_t)d;
  is_parallel = (CountThreads)(uintptr_t)e;
  team_size = (CountThreads)(uintptr_t)f;
  if (!watches_forks) watches_forks = !pthread_atfork(before_fork, NULL, in_forked_child);
  Py_RETURN_NONE;
}

/* find_offset(tensor, address): looks for the at::Tensor in a tensor object whose data pointer is known. */
static PyObject *find_offset(PyObject *module, PyObject *arguments) {
  PyObject *tensor;
  unsigned long long address;
  if (!PyArg_ParseTuple(arguments, "OK", &tensor, &address)) return NULL;
  tensor_offset = 0;
  Py_ssize_t offset = sizeof(PyObject);
  void *found = NULL;
  if (read_pointer && *(void **)((char *)tensor + offset) && read_pointer((char *)tensor + offset, &found) == 0 &&
      found == (void *)(uintptr_t)address)
    tensor_offset = offset;
  return PyLong_FromSsize_t(tensor_offset);
}

static PyMethodDef functions[] = {
    {"configure", configure, METH_VARARGS, NULL},
    {"find_offset", find_offset, METH_VARARGS, NULL},
    {NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "dynascope_launch", NULL, -1, functions};

PyMODINIT_FUNC PyInit_dynascope_launch(void) {
  PyObject *module = PyModule_Create(&definition);
  PyObject *type = module ? PyType_FromSpec(&launcher_type) : NULL;
  data_ptr_name = PyUnicode_InternFromString("data_ptr");
  if (!type || PyModule_AddObject(module, "Launcher", type) < 0) return NULL;
#ifdef Py_GIL_DISABLED
  /* What is written at all is written before the first Launcher is made, and a call has all its state on its stack. */
  PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
  return module;
}
