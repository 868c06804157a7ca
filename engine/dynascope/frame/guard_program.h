/* ---- the run ---- */

/* From `instruction` on, with references of its own. */
static int
run_owning(const GuardProgram *program, GuardRun *run, Instruction *instruction)
{
    const Instruction *end = program->instructions + program->count;
    for (; instruction < end; instruction++) {
        if (instruction->operation < CHECK_TYPE) {
            PyObject *loaded = load(run, instruction);
            if (loaded == NULL) {
                return 0;
            }
            run->registers[run->made++] = loaded;
        } else if (check(run, instruction) <= 0) {
            return 0;
        }
    }
    return 1;
}

static void
own_registers(GuardRun *run)
{
    for (int i = 0; i < run->made; i++) {
        Py_INCREF(run->registers[i]);
    }
}

/* Keeps the exception that is set, if any. */
static void
release_registers(GuardRun *run)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    while (run->made > 0) {
        Py_DECREF(run->registers[--run->made]);
    }
    PyErr_Restore(type, value, traceback);
}

static __attribute__((noinline)) int
go_on_owning(const GuardProgram *program, GuardRun *run, Instruction *next)
{
    own_registers(run);
    int holds = run_owning(program, run, next);
    release_registers(run);
    return holds;
}

/* An interrupt from the keyboard while a guard ran is not lost: it is raised again in the user's code. */
static void
forget_guard_exception(void)
{
    if (PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
            PyErr_SetInterruptEx(SIGINT);
        }
        PyErr_Clear();
    }
}

/* Room for the registers of a run: `in_place` where they fit. */
static inline bool
start_run(GuardRun *run, const GuardProgram *program, PyObject *const *slots, PyFunctionObject *function, PyObject **in_place)
{
    bool fits = program->registers <= REGISTERS_IN_PLACE;
    PyObject **registers = fits ? in_place : PyMem_Malloc(program->registers * sizeof(PyObject *));
    *run = (GuardRun){slots, function, registers, 0};
    return registers != NULL;
}

static inline void
end_run(GuardRun *run, PyObject **in_place)
{
    if (run->registers != in_place) {
        PyMem_Free(run->registers);
    }
}

static bool
program_holds(GuardProgram *program, PyObject *const *slots, PyFunctionObject *function)
{
    PyObject *in_place[REGISTERS_IN_PLACE];
    GuardRun run;
    if (!start_run(&run, program, slots, function, in_place)) {
        return false;
    }
    suspended++;
    Instruction *next = NULL;
    int holds = run_borrowing(program, &run, &next);
    if (holds == UNSURE) {
        holds = go_on_owning(program, &run, next);
    }
    if (holds <= 0) {
        forget_guard_exception();
    }
    suspended--;
    end_run(&run, in_place);
    return holds > 0;
}

/* ---- the Python type ---- */

static int
parse_operand(Instruction *instruction)
{
    PyObject *object = instruction->object;
    bool wants_tuple = instruction->operation == CHECK_KEYS || instruction->operation == CHECK_PYTHON
        || instruction->operation == LOAD_MODULE_GLOBAL || instruction->operation == CHECK_EMPTY_AT
        || instruction->operation == CHECK_NO_KEYS || instruction->operation == CHECK_CALL
        || instruction->operation == CHECK_RELATIONS || instruction->operation == CHECK_APART
        || instruction->operation == CHECK_LEAF;
    if (wants_tuple && (!PyTuple_Check(object) || PyTuple_GET_SIZE(object) < (instruction->operation != CHECK_KEYS))) {
        PyErr_SetString(PyExc_TypeError, "this operation takes a tuple");
        return -1;
    }
    if (instruction->operation == CHECK_LEAF && (PyTuple_GET_SIZE(object) != 2 || !PyTuple_Check(PyTuple_GET_ITEM(object, 0))
                                                  || !PyTuple_Check(PyTuple_GET_ITEM(object, 1)))) {
        PyErr_SetString(PyExc_TypeError, "a leaf is checked in Python, or by its type");
        return -1;
    }
    if (instruction->operation == CHECK_CALL && PyTuple_GET_SIZE(object) != 2) {
        PyErr_SetString(PyExc_TypeError, "this operation takes a function and its result");
        return -1;
    }
    if (instruction->operation == CHECK_WEAK_IDENTITY && !PyWeakref_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "this operation takes a weak reference");
        return -1;
    }
    switch (instruction->operation) {
    case CHECK_TENSOR:
        instruction->data = tensor_facts(object);
        break;
    case CHECK_STATE:
        instruction->data = state_facts(object);
        break;
    case CHECK_WORLD:
        instruction->data = world_facts(object);
        break;
    case CHECK_EMPTY_AT:
        instruction->data = key_places(object);
        break;
    case CHECK_RELATIONS:
        instruction->data = relations_of(object);
        break;
    case CHECK_APART:
        instruction->data = apart_of(object);
        break;
    default:
        return 0;
    }
    return instruction->data == NULL ? -1 : 0;
}

static bool
source_exists(const GuardProgram *program, int source)
{
    return source >= 0 ? source < program->slots : ~source < program->registers;
}

static bool
all_exist(const GuardProgram *program, PyObject *operand)
{
    for (Py_ssize_t i = 1; PyTuple_Check(operand) && i < PyTuple_GET_SIZE(operand); i++) {
        if (!source_exists(program, (int)PyLong_AsLong(PyTuple_GET_ITEM(operand, i)))) {
            return false;
        }
    }
    return true;
}

/* The sources that an instruction reads; those of CHECK_PYTHON, CHECK_RELATIONS and CHECK_APART are in their operands. */
static bool
sources_exist(const GuardProgram *program, const Instruction *instruction)
{
    switch (instruction->operation) {
    case CHECK_PYTHON:
        return all_exist(program, instruction->object);
    case CHECK_RELATIONS: case CHECK_APART: /* they read what their check in Python reads */
        return PyTuple_Check(instruction->object) && PyTuple_GET_SIZE(instruction->object) == 3
            && all_exist(program, PyTuple_GET_ITEM(instruction->object, 0));
    case CHECK_LEAF:
        return source_exists(program, instruction->source) && PyTuple_Check(instruction->object)
            && PyTuple_GET_SIZE(instruction->object) > 0 && all_exist(program, PyTuple_GET_ITEM(instruction->object, 0));
    case CHECK_SAME: case CHECK_NOT_SAME: case LOAD_KEYED:
        return source_exists(program, instruction->source) && source_exists(program, instruction->second);
    }
    return !has_source(instruction) || source_exists(program, instruction->source);
}

static int
parse_instruction(GuardProgram *program, PyObject *row)
{
    Instruction *instruction = &program->instructions[program->count];
    if (!PyArg_ParseTuple(row, "iiiO", &instruction->operation, &instruction->source, &instruction->second,
                          &instruction->object)) {
        return -1;
    }
    Py_INCREF(instruction->object);
    program->count++;
    if (instruction->operation < 0 || instruction->operation >= OPERATION_COUNT || !sources_exist(program, instruction)) {
        PyErr_SetString(PyExc_ValueError, "no such operation or source");
        return -1;
    }
    program->registers += instruction->operation < CHECK_TYPE;
    return parse_operand(instruction);
}

static PyObject *
program_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    int slots;
    PyObject *rows;
    if (!PyArg_ParseTuple(arguments, "iO!", &slots, &PyList_Type, &rows)) {
        return NULL;
    }
    GuardProgram *program = (GuardProgram *)type->tp_alloc(type, 0);
    if (program == NULL) {
        return NULL;
    }
    program->slots = slots;
    program->instructions = PyMem_Calloc(PyList_GET_SIZE(rows) + 1, sizeof(Instruction));
    if (program->instructions == NULL) {
        Py_DECREF(program);
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(rows); i++) {
        if (parse_instruction(program, PyList_GET_ITEM(rows, i)) < 0) {
            Py_DECREF(program);
            return NULL;
        }
    }
    return (PyObject *)program;
}

static int
program_traverse(GuardProgram *program, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; i < program->count; i++) {
        Py_VISIT(program->instructions[i].object);
    }
    return 0;
}

static void
free_data(Instruction *instruction)
{
    if (instruction->operation == CHECK_WORLD && instruction->data != NULL) {
        free_world(instruction->data);
    } else {
        PyMem_Free(instruction->data);
    }
}

static int
program_clear(GuardProgram *program)
{
    Py_ssize_t count = program->count;
    program->count = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        free_data(&program->instructions[i]);
        Py_DECREF(program->instructions[i].object);
    }
    return 0;
}

static void
program_dealloc(GuardProgram *program)
{
    PyObject_GC_UnTrack(program);
    program_clear(program);
    PyMem_Free(program->instructions);
    Py_TYPE(program)->tp_free((PyObject *)program);
}

static PyObject *
program_holds_for(GuardProgram *program, PyObject *arguments)
{
    PyObject *slots, *function;
    if (!PyArg_ParseTuple(arguments, "O!O!", &PyTuple_Type, &slots, &PyFunction_Type, &function)) {
        return NULL;
    }
    if (PyTuple_GET_SIZE(slots) != program->slots) {
        PyErr_SetString(PyExc_ValueError, "a value for each parameter is expected");
        return NULL;
    }
    return PyBool_FromLong(program_holds(program, PySequence_Fast_ITEMS(slots), (PyFunctionObject *)function));
}

static PyMethodDef program_methods[] = {
    {"holds", (PyCFunction)program_holds_for, METH_VARARGS, "holds(parameter values, function) -> bool"},
    {NULL},
};

static PyTypeObject GuardProgramType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynascope.frame.hook.GuardProgram",
    .tp_doc = "GuardProgram(parameter count, [(operation, source, number, operand), ...]): the guards of one entry.",
    .tp_basicsize = sizeof(GuardProgram),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = program_new,
    .tp_traverse = (traverseproc)program_traverse,
    .tp_clear = (inquiry)program_clear,
    .tp_dealloc = (destructor)program_dealloc,
    .tp_methods = program_methods,
};
