/* Entry: specialised code and the guards under which it may stand in. EntryTable: the entries of one code object. */

typedef struct {
    PyObject_HEAD
    GuardProgram *program;
    PyCodeObject *code;
    PyObject *owner;
    PyObject *globals;           /* of the functions it serves, or NULL for all: compiled code may hold them */
    PyObject *function;          /* of a table called with functions that have no closure: the last one made, or NULL */
    PyObject *positional_code;   /* `code` with every parameter positional, made when first needed, or NULL */
    int leaves;                  /* the code may return a tail call or AS_WRITTEN */
    long long hits;
    long long last_use;
} Entry;

/* Of all entries: the one used last has the highest `last_use`. */
static long long uses;

typedef struct {
    PyObject_HEAD
    PyObject *code;              /* weak reference: the code's extra slot owns the table */
    PyObject *on_miss;
    PyObject *entries;           /* tuple of Entry, never changed in place: a running call keeps the one it started with */
    int positional;              /* co_argcount */
    int positional_only;
    int keyword_only;
    int slots;                   /* all parameters, with *args and **kwargs */
    int flags;
    bool given_up;
    bool resumed;                /* of a region after a break: every turn of a loop that breaks calls it inside the last */
    vectorcallfunc vectorcall;
    PyObject *weak_references;
} EntryTable;

static PyTypeObject EntryType;
static PyTypeObject EntryTableType;

static int
parameter_count(const PyCodeObject *code)
{
    return code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) + !!(code->co_flags & CO_VARKEYWORDS);
}

/* ---- the values of a call, as Python sees them: made for misses only ---- */

static PyObject *
local_values(PyCodeObject *code, PyObject *const *slots)
{
    PyObject *locals = PyDict_New();
    for (int i = 0; locals != NULL && i < parameter_count(code); i++) {
        if (slots[i] != NULL && PyDict_SetItem(locals, PyTuple_GET_ITEM(code->co_localsplusnames, i), slots[i]) < 0) {
            Py_CLEAR(locals);
        }
    }
    return locals;
}

/* The free variables by name: what they hold, or their cells. */
static PyObject *
cell_values(PyCodeObject *code, PyObject *closure, bool contents)
{
    PyObject *cells = PyDict_New();
    int first = code->co_nlocalsplus - code->co_nfreevars;
    Py_ssize_t count = closure == NULL ? 0 : PyTuple_GET_SIZE(closure);
    for (Py_ssize_t i = 0; cells != NULL && i < count && i < code->co_nfreevars; i++) {
        PyObject *cell = PyTuple_GET_ITEM(closure, i);
        PyObject *content = contents ? PyCell_GET(cell) : cell;
        if (content != NULL && PyDict_SetItem(cells, PyTuple_GET_ITEM(code->co_localsplusnames, first + i), content) < 0) {
            Py_CLEAR(cells);
        }
    }
    return cells;
}

static PyObject *
frame_values(PyObject *const *slots, PyFunctionObject *function)
{
    if (values_type == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "use_values() was not called");
        return NULL;
    }
    PyCodeObject *code = (PyCodeObject *)function->func_code;
    PyObject *locals = local_values(code, slots);
    PyObject *cells = cell_values(code, function->func_closure, true);
    PyObject *variables = cell_values(code, function->func_closure, false);
    PyObject *values = NULL;
    if (locals != NULL && cells != NULL && variables != NULL) {
        values = PyObject_CallFunctionObjArgs(
            values_type, locals, function->func_globals, function->func_builtins, cells, variables, NULL);
    }
    Py_XDECREF(locals);
    Py_XDECREF(cells);
    Py_XDECREF(variables);
    return values;
}

/* ---- choosing an entry ---- */

static Entry *
first_that_holds(EntryTable *table, PyObject *const *slots, PyFunctionObject *function)
{
    PyObject *entries = Py_NewRef(table->entries);
    Entry *found = NULL;
    for (Py_ssize_t i = 0; found == NULL && i < PyTuple_GET_SIZE(entries); i++) {
        Entry *entry = (Entry *)PyTuple_GET_ITEM(entries, i);
        if (entry->globals != NULL && entry->globals != function->func_globals) {
            continue;
        }
        if (program_holds(entry->program, slots, function)) {
            entry->hits++;
            entry->last_use = ++uses;
            found = (Entry *)Py_NewRef((PyObject *)entry);
        }
    }
    Py_DECREF(entries);
    return found;
}

static bool code_accepts(const EntryTable *table, const PyCodeObject *code);

static PyObject *
checked_answer(EntryTable *table, PyObject *answer)
{
    if (answer == NULL || answer == Py_None) {
        return answer;
    }
    if (!PyObject_TypeCheck(answer, &EntryType) || !code_accepts(table, ((Entry *)answer)->code)) {
        PyErr_SetString(PyExc_TypeError, "on_miss must return None or an Entry whose code has the table's parameters");
        Py_CLEAR(answer);
    }
    return answer;
}

static PyObject *
report_miss(EntryTable *table, PyObject *const *slots, PyFunctionObject *function)
{
    PyObject *values = frame_values(slots, function);
    if (values == NULL) {
        return NULL;
    }
    suspended++;
    PyObject *answer = PyObject_CallFunctionObjArgs(table->on_miss, table, function, values, NULL);
    suspended--;
    Py_DECREF(values);
    return checked_answer(table, answer);
}

/* 1 with a new reference in *found; 0 where the original is to run; -1 with an exception. The table must be kept alive. */
static int
select_entry(EntryTable *table, PyObject *const *slots, PyFunctionObject *function, Entry **found)
{
    *found = first_that_holds(table, slots, function);
    if (*found != NULL) {
        return 1;
    }
    if (table->given_up || table->on_miss == Py_None || IS_FINALIZING()) {
        return 0;
    }
    PyObject *answer = report_miss(table, slots, function);
    if (answer == Py_None) {
        Py_DECREF(answer);
        return 0;
    }
    *found = (Entry *)answer;
    if (answer != NULL) {
        (*found)->last_use = ++uses;
    }
    return answer == NULL ? -1 : 1;
}

/* ---- functions of entries ---- */

static PyObject *
function_like(PyObject *code, PyFunctionObject *model)
{
    PyObject *made = PyFunction_NewWithQualName(code, model->func_globals, model->func_qualname);
    if (made == NULL) {
        return NULL;
    }
    PyFunctionObject *function = (PyFunctionObject *)made;
    Py_XSETREF(function->func_closure, Py_XNewRef(model->func_closure));
    Py_XSETREF(function->func_defaults, Py_XNewRef(model->func_defaults));
    Py_XSETREF(function->func_kwdefaults, Py_XNewRef(model->func_kwdefaults));
    Py_XSETREF(function->func_name, Py_XNewRef(model->func_name));
    return made;
}

/* Whether a function made earlier still is what would be made now: the user may change the defaults at any time. */
static inline bool
function_is_current(PyObject *made, const PyFunctionObject *model)
{
    const PyFunctionObject *function = (const PyFunctionObject *)made;
    return made != NULL && function->func_globals == model->func_globals && function->func_closure == model->func_closure
        && function->func_defaults == model->func_defaults && function->func_kwdefaults == model->func_kwdefaults;
}

static PyObject *
positional_code(Entry *entry)
{
    PyCodeObject *code = entry->code;
    if (entry->positional_code == NULL) {
        PyObject *replace = PyObject_GetAttrString((PyObject *)code, "replace");
        PyObject *none = PyTuple_New(0);
        PyObject *changes = Py_BuildValue("{sisisisi}", "co_argcount", parameter_count(code), "co_kwonlyargcount", 0,
                                          "co_posonlyargcount", 0,
                                          "co_flags", code->co_flags & ~(CO_VARARGS | CO_VARKEYWORDS));
        if (replace != NULL && none != NULL && changes != NULL) {
            entry->positional_code = PyObject_Call(replace, none, changes);
        }
        Py_XDECREF(replace);
        Py_XDECREF(none);
        Py_XDECREF(changes);
    }
    return entry->positional_code;
}

/* ---- Entry ---- */

static int never_watch(PyObject *code);

static PyObject *
entry_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"program", "code", "owner", "globals", "leaves", NULL};
    PyObject *program, *code, *owner = Py_None, *globals = NULL;
    int leaves = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!O!|OO!p", names, &GuardProgramType, &program, &PyCode_Type, &code,
                                     &owner, &PyDict_Type, &globals, &leaves)) {
        return NULL;
    }
    if (((GuardProgram *)program)->slots != parameter_count((PyCodeObject *)code)) {
        PyErr_SetString(PyExc_ValueError, "the program and the code have different parameters");
        return NULL;
    }
    if (never_watch(code) < 0) {
        return NULL;
    }
    Entry *entry = (Entry *)type->tp_alloc(type, 0);
    if (entry != NULL) {
        entry->program = (GuardProgram *)Py_NewRef(program);
        entry->code = (PyCodeObject *)Py_NewRef(code);
        entry->owner = Py_NewRef(owner);
        entry->globals = Py_XNewRef(globals);
        entry->leaves = leaves;
    }
    return (PyObject *)entry;
}

static int
entry_traverse(Entry *entry, visitproc visit, void *arg)
{
    Py_VISIT(entry->program);
    Py_VISIT(entry->code);
    Py_VISIT(entry->owner);
    Py_VISIT(entry->globals);
    Py_VISIT(entry->function);
    Py_VISIT(entry->positional_code);
    return 0;
}

/* Only the parts that can close a cycle and that no running call needs. */
static int
entry_clear(Entry *entry)
{
    Py_CLEAR(entry->owner);
    Py_CLEAR(entry->function);
    return 0;
}

static void
entry_dealloc(Entry *entry)
{
    PyObject_GC_UnTrack(entry);
    entry_clear(entry);
    Py_XDECREF(entry->globals);
    Py_XDECREF(entry->program);
    Py_XDECREF(entry->code);
    Py_XDECREF(entry->positional_code);
    Py_TYPE(entry)->tp_free((PyObject *)entry);
}

static PyMemberDef entry_members[] = {
    {"program", T_OBJECT_EX, offsetof(Entry, program), READONLY},
    {"code", T_OBJECT_EX, offsetof(Entry, code), READONLY},
    {"owner", T_OBJECT_EX, offsetof(Entry, owner), READONLY},
    {"hits", T_LONGLONG, offsetof(Entry, hits), 0},
    {"last_use", T_LONGLONG, offsetof(Entry, last_use), READONLY},
    {NULL},
};

static PyTypeObject EntryType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynascope.frame.hook.Entry",
    .tp_doc = "Entry(program, code, owner, globals, leaves): code with the original's parameters, and when it may run.",
    .tp_basicsize = sizeof(Entry),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = entry_new,
    .tp_traverse = (traverseproc)entry_traverse,
    .tp_clear = (inquiry)entry_clear,
    .tp_dealloc = (destructor)entry_dealloc,
    .tp_members = entry_members,
};

/* ---- EntryTable ---- */

static PyObject *table_vectorcall(PyObject *, PyObject *const *, size_t, PyObject *);

static PyObject *
table_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"code", "on_miss", NULL};
    PyObject *code_object, *on_miss = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!|O", names, &PyCode_Type, &code_object, &on_miss)) {
        return NULL;
    }
    EntryTable *table = (EntryTable *)type->tp_alloc(type, 0);
    if (table == NULL) {
        return NULL;
    }
    PyCodeObject *code = (PyCodeObject *)code_object;
    table->on_miss = Py_NewRef(on_miss);
    table->code = PyWeakref_NewRef(code_object, NULL);
    table->entries = PyTuple_New(0);
    table->positional = code->co_argcount;
    table->positional_only = code->co_posonlyargcount;
    table->keyword_only = code->co_kwonlyargcount;
    table->slots = parameter_count(code);
    table->flags = code->co_flags;
    table->vectorcall = table_vectorcall;
    if (table->code == NULL || table->entries == NULL) {
        Py_CLEAR(table);
    }
    return (PyObject *)table;
}

static PyCodeObject *
table_code(const EntryTable *table)
{
    return (PyCodeObject *)((PyWeakReference *)table->code)->wr_object;
}

/* Same parameters, free variables and kind of function: then one can stand in for the other at its first instruction. */
static bool
code_accepts(const EntryTable *table, const PyCodeObject *code)
{
    const PyCodeObject *original = table_code(table);
    int kinds = CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_OPTIMIZED;
    return code->co_argcount == table->positional && code->co_kwonlyargcount == table->keyword_only
        && parameter_count(code) == table->slots && ((code->co_flags ^ table->flags) & kinds) == 0
        && ((PyObject *)original == Py_None || code->co_nfreevars == original->co_nfreevars);
}

static int
table_replace(EntryTable *table, PyObject *list)
{
    PyObject *entries = list == NULL ? NULL : PyList_AsTuple(list);
    Py_XDECREF(list);
    if (entries == NULL) {
        return -1;
    }
    Py_SETREF(table->entries, entries);
    return 0;
}

static PyObject *
table_add(EntryTable *table, PyObject *entry)
{
    if (!PyObject_TypeCheck(entry, &EntryType) || !code_accepts(table, ((Entry *)entry)->code)) {
        PyErr_SetString(PyExc_TypeError, "an Entry whose code has the table's parameters and free variables is expected");
        return NULL;
    }
    PyObject *list = PySequence_List(table->entries);
    if (list == NULL || PyList_Append(list, entry) < 0) {
        Py_XDECREF(list);
        return NULL;
    }
    if (table_replace(table, list) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
table_remove(EntryTable *table, PyObject *entry)
{
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list != NULL && i < PyTuple_GET_SIZE(table->entries); i++) {
        PyObject *kept = PyTuple_GET_ITEM(table->entries, i);
        if (kept != entry && PyList_Append(list, kept) < 0) {
            Py_CLEAR(list);
        }
    }
    if (table_replace(table, list) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
table_clear_entries(EntryTable *table, PyObject *Py_UNUSED(ignored))
{
    if (table_replace(table, PyList_New(0)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
table_give_up(EntryTable *table, PyObject *Py_UNUSED(ignored))
{
    table->given_up = true;
    return table_clear_entries(table, NULL);
}

static PyObject *
table_begin_again(EntryTable *table, PyObject *on_miss)
{
    table->given_up = false;
    Py_XSETREF(table->on_miss, Py_NewRef(on_miss));
    return table_clear_entries(table, NULL);
}

static PyObject *table_bind(EntryTable *table, PyObject *function);

static int
table_traverse(EntryTable *table, visitproc visit, void *arg)
{
    Py_VISIT(table->on_miss);
    Py_VISIT(table->entries);
    return 0;
}

static int
table_gc_clear(EntryTable *table)
{
    table->given_up = true;
    Py_XSETREF(table->on_miss, Py_NewRef(Py_None));
    PyObject *empty = PyTuple_New(0);
    if (empty != NULL) {
        Py_XSETREF(table->entries, empty);
    }
    return 0;
}

static void
table_dealloc(EntryTable *table)
{
    PyObject_GC_UnTrack(table);
    if (table->weak_references != NULL) {
        PyObject_ClearWeakRefs((PyObject *)table);
    }
    Py_XDECREF(table->code);
    Py_XDECREF(table->on_miss);
    Py_XDECREF(table->entries);
    Py_TYPE(table)->tp_free((PyObject *)table);
}

static PyObject *
table_get_code(EntryTable *table, void *Py_UNUSED(ignored))
{
    return Py_NewRef((PyObject *)table_code(table));
}

static PyMethodDef table_methods[] = {
    {"add", (PyCFunction)table_add, METH_O, "Let an entry serve, after those already here."},
    {"remove", (PyCFunction)table_remove, METH_O, "Let an entry serve no more. Calls that run it finish."},
    {"clear", (PyCFunction)table_clear_entries, METH_NOARGS, "Remove every entry."},
    {"begin_again", (PyCFunction)table_begin_again, METH_O, "As it was made, with another on_miss."},
    {"give_up", (PyCFunction)table_give_up, METH_NOARGS, "From now on always the original; no misses are reported."},
    {"bind", (PyCFunction)table_bind, METH_O, "The dispatcher of a function that has the table's code."},
    {NULL},
};

static PyMemberDef table_members[] = {
    {"entries", T_OBJECT_EX, offsetof(EntryTable, entries), READONLY},
    {"on_miss", T_OBJECT_EX, offsetof(EntryTable, on_miss), 0},
    {"given_up", T_BOOL, offsetof(EntryTable, given_up), READONLY},
    {"resumed", T_BOOL, offsetof(EntryTable, resumed), 0},
    {NULL},
};

static PyGetSetDef table_properties[] = {
    {"code", (getter)table_get_code, NULL, "The original code; None once nobody has it any more."},
    {NULL},
};

static PyTypeObject EntryTableType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynascope.frame.hook.EntryTable",
    .tp_doc = "EntryTable(code, on_miss): the entries of one code object.\n\n"
              "table(function, *arguments) calls a function that has this code through its entries.",
    .tp_basicsize = sizeof(EntryTable),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(EntryTable, vectorcall),
    .tp_weaklistoffset = offsetof(EntryTable, weak_references),
    .tp_call = PyVectorcall_Call,
    .tp_new = table_new,
    .tp_traverse = (traverseproc)table_traverse,
    .tp_clear = (inquiry)table_gc_clear,
    .tp_dealloc = (destructor)table_dealloc,
    .tp_methods = table_methods,
    .tp_members = table_members,
    .tp_getset = table_properties,
};
