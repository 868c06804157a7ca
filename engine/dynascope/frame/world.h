/* The names that a program takes from libraries, checked by version: one comparison for each namespace, however many names.

   A space is a module's dictionary or a class. A class has a version in every CPython. A dictionary has one up to 3.12; later
   ones are watched, and the watcher counts. Where the version moved, the space's names are looked up again; if they lead where
   they led, the new version is remembered, so that a change of anything else in the space costs one such look. */

typedef enum { NAME_ABSENT, NAME_IDENTICAL, NAME_WEAKLY_IDENTICAL, NAME_EQUAL, NAME_OF_TYPE } NameKind;

typedef struct {
    int kind;
    PyObject *name;
    PyObject *expected;
} WorldName;

typedef struct {
    PyObject *owner;             /* dict or type; the operand keeps it alive, and `order` */
    PyObject *order;             /* of a class: the classes that `super()` and `isinstance` go through, `D.__bases__ = ...` changes it */
    const uint64_t *clock;       /* NULL for a class, and for a dictionary that cannot be watched: that is looked at each time */
    uint64_t seen;
    Py_ssize_t first, end;       /* its names */
} WorldSpace;

typedef struct {
    Py_ssize_t count;
    WorldName *names;
    WorldSpace spaces[];
} World;

/* ---- the clock of a dictionary ---- */

#ifdef WATCHED_DICTIONARIES

typedef struct WatchedDictionary {
    PyObject *dictionary;
    uint64_t version;
    Py_ssize_t users;
    struct WatchedDictionary *next;
} WatchedDictionary;

enum { WATCH_BUCKETS = 256 };
static WatchedDictionary *watched_dictionaries[WATCH_BUCKETS];
static int world_watcher = -1;

static WatchedDictionary **
watched_place(PyObject *dictionary)
{
    WatchedDictionary **place = &watched_dictionaries[((uintptr_t)dictionary >> 5) % WATCH_BUCKETS];
    while (*place != NULL && (*place)->dictionary != dictionary) {
        place = &(*place)->next;
    }
    return place;
}

static int
note_change(PyDict_WatchEvent event, PyObject *dictionary, PyObject *key, PyObject *value)
{
    WatchedDictionary *found = *watched_place(dictionary);
    if (found != NULL) {
        found->version++;
    }
    return 0;
}

static const uint64_t *
start_clock(PyObject *dictionary)
{
    if (world_watcher < 0) {
        world_watcher = PyDict_AddWatcher(note_change);
    }
    WatchedDictionary **place = watched_place(dictionary);
    if (*place == NULL && world_watcher >= 0) {
        WatchedDictionary *made = PyMem_Calloc(1, sizeof(WatchedDictionary));
        if (made != NULL && PyDict_Watch(world_watcher, dictionary) == 0) {
            *made = (WatchedDictionary){dictionary, 1, 0, NULL};
            *place = made;
        } else {
            PyMem_Free(made);
        }
    }
    PyErr_Clear();
    if (*place == NULL) {
        return NULL;
    }
    (*place)->users++;
    return &(*place)->version;
}

static void
stop_clock(PyObject *dictionary)
{
    WatchedDictionary **place = watched_place(dictionary), *found = *place;
    if (found != NULL && --found->users == 0) {
        *place = found->next;
        PyMem_Free(found);
        if (PyDict_Unwatch(world_watcher, dictionary) < 0) {
            PyErr_Clear();
        }
    }
}

#else

static const uint64_t *
start_clock(PyObject *dictionary)
{
    return &((PyDictObject *)dictionary)->ma_version_tag;
}

static void
stop_clock(PyObject *dictionary)
{
}

#endif

/* ---- the check ---- */

/* 0: no version is known. */
static inline uint64_t
space_version(const WorldSpace *space)
{
    return space->clock != NULL ? *space->clock : PyType_Check(space->owner) ? ((PyTypeObject *)space->owner)->tp_version_tag : 0;
}

static bool
name_holds(const WorldName *name, PyObject *found)
{
    switch (name->kind) {
    case NAME_ABSENT:
        return found == NULL;
    case NAME_IDENTICAL:
        return found == name->expected;
    case NAME_WEAKLY_IDENTICAL:
        return found != NULL && found != Py_None && ((PyWeakReference *)name->expected)->wr_object == found;
    case NAME_OF_TYPE:
        return found != NULL && (PyObject *)Py_TYPE(found) == name->expected;
    default:
        return found != NULL && constants_equal(found, name->expected) == 1;
    }
}

static bool
order_holds(PyTypeObject *owner, PyObject *order)
{
    PyObject *now = owner->tp_mro;
    Py_ssize_t length = PyTuple_GET_SIZE(order);
    if (now == NULL || PyTuple_GET_SIZE(now) != length) {
        return false;
    }
    for (Py_ssize_t i = 0; now != order && i < length; i++) {
        if (PyTuple_GET_ITEM(now, i) != PyTuple_GET_ITEM(order, i)) {
            return false;
        }
    }
    return true;
}

/* Nothing here runs Python code: names are plain strings, and what is compared by value are plain constants. */
static __attribute__((noinline)) int
space_holds(const World *world, WorldSpace *space)
{
    bool is_class = PyType_Check(space->owner);
    if (!is_class && !DK_IS_UNICODE(((PyDictObject *)space->owner)->ma_keys)) {
        return 0;
    }
    if (is_class && !order_holds((PyTypeObject *)space->owner, space->order)) {
        return 0;
    }
    for (Py_ssize_t i = space->first; i < space->end; i++) {
        const WorldName *name = &world->names[i];
        PyObject *found = is_class ? _PyType_Lookup((PyTypeObject *)space->owner, name->name)
                                   : PyDict_GetItemWithError(space->owner, name->name);
        if (!name_holds(name, found)) {
            return 0;
        }
    }
    space->seen = space_version(space);
    return 1;
}

static inline int
world_holds(World *world)
{
    for (Py_ssize_t i = 0; i < world->count; i++) {
        WorldSpace *space = &world->spaces[i];
        uint64_t version = space_version(space);
        if ((version == 0 || version != space->seen) && !space_holds(world, space)) {
            return 0;
        }
    }
    return 1;
}

/* ---- the operand: ((owner, ((name, kind, expected), ...), the class's order or None), ...) ---- */

static int
parse_name(PyObject *row, WorldName *name)
{
    if (!PyArg_ParseTuple(row, "UiO", &name->name, &name->kind, &name->expected)) {
        return -1;
    }
    bool is_wrong = name->kind < NAME_ABSENT || name->kind > NAME_OF_TYPE
        || (name->kind == NAME_WEAKLY_IDENTICAL && !PyWeakref_Check(name->expected));
    if (is_wrong) {
        PyErr_SetString(PyExc_TypeError, "a name, absent or with what it leads to, is expected");
    }
    return is_wrong ? -1 : 0;
}

static Py_ssize_t
count_names(PyObject *operand)
{
    Py_ssize_t count = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operand); i++) {
        PyObject *owner, *names, *order;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(operand, i), "OO!O", &owner, &PyTuple_Type, &names, &order)) {
            return -1;
        }
        if (!PyDict_Check(owner) && !(PyType_Check(owner) && PyTuple_Check(order))) {
            PyErr_SetString(PyExc_TypeError, "a dictionary, or a class and its order, is expected");
            return -1;
        }
        count += PyTuple_GET_SIZE(names);
    }
    return count;
}

static void
free_world(World *world)
{
    for (Py_ssize_t i = 0; i < world->count; i++) {
        if (world->spaces[i].clock != NULL) {
            stop_clock(world->spaces[i].owner);
        }
    }
    PyMem_Free(world->names);
    PyMem_Free(world);
}

static int
parse_space(World *world, Py_ssize_t first, PyObject *row)
{
    WorldSpace *space = &world->spaces[world->count];
    PyObject *owner = PyTuple_GET_ITEM(row, 0), *names = PyTuple_GET_ITEM(row, 1);
    *space = (WorldSpace){owner, PyTuple_GET_ITEM(row, 2), NULL, 0, first, first + PyTuple_GET_SIZE(names)};
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        if (parse_name(PyTuple_GET_ITEM(names, i), &world->names[first + i]) < 0) {
            return -1;
        }
    }
    space->clock = PyType_Check(owner) ? NULL : start_clock(owner);
    world->count++;
    return 0;
}

static World *
world_facts(PyObject *operand)
{
    Py_ssize_t names = PyTuple_Check(operand) ? count_names(operand) : -1;
    if (names < 0) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "a tuple of namespaces is expected");
        }
        return NULL;
    }
    World *world = PyMem_Calloc(1, sizeof(World) + PyTuple_GET_SIZE(operand) * sizeof(WorldSpace));
    if (world == NULL || (world->names = PyMem_Calloc(names + 1, sizeof(WorldName))) == NULL) {
        PyMem_Free(world);
        return (World *)PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operand); i++) {
        Py_ssize_t first = i == 0 ? 0 : world->spaces[i - 1].end;
        if (parse_space(world, first, PyTuple_GET_ITEM(operand, i)) < 0) {
            free_world(world);
            return NULL;
        }
    }
    return world;
}

/* ---- names that an object's own dictionary has not ---- */

/* One comparison where the dictionary has a version and nothing was written to it since. */
static inline int
has_none_of(PyObject *dictionary, PyObject *names, uint64_t *version)
{
    uint64_t now = DICTIONARY_VERSION(dictionary);
    if (*version != 0 && now == *version) {
        return 1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        int found = PyDict_Contains(dictionary, PyTuple_GET_ITEM(names, i));
        if (found != 0) {
            return found < 0 ? -1 : 0;
        }
    }
    *version = now;
    return 1;
}

/* ---- what a function of a library without arguments returns: a flag that it keeps ---- */

/* operand: (builtin function, value) */
static int
call_returns(PyObject *operand)
{
    PyObject *answer = PyObject_CallNoArgs(PyTuple_GET_ITEM(operand, 0));
    if (answer == NULL) {
        return -1;
    }
    int equal = constants_equal(answer, PyTuple_GET_ITEM(operand, 1));
    Py_DECREF(answer);
    return equal;
}
