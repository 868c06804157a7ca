/* Comparing the state of a library (torch's modes) with what it was: a row of probes, each a C function of the library.

   Again nothing here knows torch: `guards/global_state.py` names the functions, and proves them before use. */

typedef enum { PROBE_BYTE, PROBE_LONG, PROBE_BYTE_OF_POINTER, PROBE_BYTE_OF_BYTE, PROBE_THREAD_WORDS, PROBE_PYTHON, PROBE_MEMORY } ProbeKind;

typedef struct {
    int kind;
    void *address;               /* of the function; of the byte for PROBE_MEMORY; of the library's handle for PROBE_THREAD_WORDS */
    uint64_t argument;
    uint64_t expected[2];
    PyObject *getter;            /* PROBE_PYTHON: called without arguments */
    PyObject *answer;
    char symbol[96];             /* PROBE_THREAD_WORDS */
} Probe;

typedef struct {
    Py_ssize_t count;
    bool asks_python;
    Probe probes[];
} StateFacts;

/* Each thread has its own copy of the variable; dlsym gives this thread's, once. One such variable is known at a time. */
static __thread const uint64_t *thread_words;

static const uint64_t *
find_thread_words(const Probe *probe)
{
    if (thread_words == NULL) {
        thread_words = dlsym(probe->address, probe->symbol);
    }
    return thread_words;
}

static int
probe_python(const Probe *probe)
{
    PyObject *answer = PyObject_CallNoArgs(probe->getter);
    if (answer == NULL) {
        return -1;
    }
    int same = PyObject_RichCompareBool(answer, probe->answer, Py_EQ);
    Py_DECREF(answer);
    return same;
}

static inline int
probe_holds(const Probe *probe)
{
    switch (probe->kind) {
    case PROBE_BYTE:
        return ((uint8_t (*)(void))probe->address)() == (uint8_t)probe->expected[0];
    case PROBE_MEMORY:
        return *(const uint8_t *)probe->address == (uint8_t)probe->expected[0];
    case PROBE_LONG:
        return ((int64_t (*)(void))probe->address)() == (int64_t)probe->expected[0];
    case PROBE_BYTE_OF_POINTER:
        return ((uint8_t (*)(uintptr_t))probe->address)((uintptr_t)probe->argument) == (uint8_t)probe->expected[0];
    case PROBE_BYTE_OF_BYTE:
        return ((uint8_t (*)(int8_t))probe->address)((int8_t)probe->argument) == (uint8_t)probe->expected[0];
    case PROBE_THREAD_WORDS: {
        const uint64_t *words = find_thread_words(probe);
        return words != NULL && words[0] == probe->expected[0] && words[1] == probe->expected[1];
    }
    default:
        return probe_python(probe);
    }
}

static int
state_holds(const StateFacts *facts)
{
    for (Py_ssize_t i = 0; i < facts->count; i++) {
        int holds = probe_holds(&facts->probes[i]);
        if (holds <= 0) {
            return holds;
        }
    }
    return 1;
}

/* row: (kind, address, argument, expected, expected, symbol, getter, answer); the operand keeps the objects alive */
static int
parse_probe(PyObject *row, Probe *probe)
{
    unsigned long long address, argument, first, second;
    const char *symbol;
    if (!PyArg_ParseTuple(row, "iKKKKsOO", &probe->kind, &address, &argument, &first, &second, &symbol, &probe->getter,
                          &probe->answer)) {
        return -1;
    }
    if (strlen(symbol) >= sizeof(probe->symbol)) {
        PyErr_SetString(PyExc_ValueError, "the symbol's name is too long");
        return -1;
    }
    strcpy(probe->symbol, symbol);
    probe->address = (void *)(uintptr_t)address;
    probe->argument = argument;
    probe->expected[0] = first;
    probe->expected[1] = second;
    return 0;
}

static StateFacts *
state_facts(PyObject *operand)
{
    if (!PyTuple_Check(operand)) {
        PyErr_SetString(PyExc_TypeError, "a tuple of probes is expected");
        return NULL;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(operand);
    StateFacts *facts = PyMem_Calloc(1, sizeof(StateFacts) + count * sizeof(Probe));
    if (facts == NULL) {
        return (StateFacts *)PyErr_NoMemory();
    }
    facts->count = count;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (parse_probe(PyTuple_GET_ITEM(operand, i), &facts->probes[i]) < 0) {
            PyMem_Free(facts);
            return NULL;
        }
        facts->asks_python |= facts->probes[i].kind == PROBE_PYTHON;
    }
    return facts;
}

/* Whether one probe's answer is as expected now: how Python proves a probe before it trusts it. */
static PyObject *
try_probe(PyObject *module, PyObject *row)
{
    Probe probe;
    if (parse_probe(row, &probe) < 0) {
        return NULL;
    }
    int holds = probe_holds(&probe);
    return holds < 0 ? NULL : PyBool_FromLong(holds);
}
