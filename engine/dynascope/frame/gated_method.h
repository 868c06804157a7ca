/* GatedMethod: a method whose usual way is to call something that the object holds, while a guard program lets it.

       GatedMethod("_gate", "_call", otherwise)      obj.method(*args) is obj.__dict__["_call"](*args) as long as the
                                                     program obj.__dict__["_gate"] holds for (obj,), else otherwise(obj, *args) */

typedef struct {
    PyObject_HEAD
    PyObject *program_name;
    PyObject *target_name;
    PyObject *otherwise;         /* a Python function */
    int program_place;           /* where the names were in the object's dictionary: guesses */
    int target_place;
    vectorcallfunc vectorcall;
    PyObject *weak_references;
} GatedMethod;

/* A new reference to what the object holds for this call; NULL for `otherwise`. */
static PyObject *
gated_target(GatedMethod *self, PyObject *const *object)
{
    PyObject *held = own_dictionary(*object);
    PyObject *program = find_key(held, self->program_name, &self->program_place);
    PyObject *target = find_key(held, self->target_name, &self->target_place);
    if (program == NULL || target == NULL || !Py_IS_TYPE(program, &GuardProgramType)
        || ((GuardProgram *)program)->slots != 1) {
        return NULL;
    }
    Py_INCREF(program);
    Py_INCREF(target);
    if (!program_holds((GuardProgram *)program, object, (PyFunctionObject *)self->otherwise)) {
        Py_CLEAR(target);
    }
    Py_DECREF(program);
    return target;
}

static PyObject *
gated_vectorcall(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *keyword_names)
{
    GatedMethod *self = (GatedMethod *)callable;
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    PyObject *target = count > 0 && suspended == 0 && !thread_is_traced() && !is_read_elsewhere() ? gated_target(self, arguments) : NULL;
    if (target == NULL) {
        return PyErr_Occurred() ? NULL : PyObject_Vectorcall(self->otherwise, arguments, flags, keyword_names);
    }
    PyObject *result = PyObject_Vectorcall(target, arguments + 1, (size_t)(count - 1) | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                           keyword_names);
    Py_DECREF(target);
    return result;
}

static PyObject *
gated_get(PyObject *self, PyObject *object, PyObject *Py_UNUSED(type))
{
    return object == NULL || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

/* To whoever reads it, the method is the Python function that it stands before. */
static PyObject *
gated_getattro(PyObject *self, PyObject *name)
{
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        found = PyObject_GetAttr(((GatedMethod *)self)->otherwise, name);
    }
    return found;
}

static PyGetSetDef gated_properties[] = {
    {"__class__", dispatcher_class},
    {NULL},
};

static PyObject *
gated_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    PyObject *program_name, *target_name, *otherwise;
    if (!PyArg_ParseTuple(arguments, "UUO!", &program_name, &target_name, &PyFunction_Type, &otherwise)) {
        return NULL;
    }
    GatedMethod *self = (GatedMethod *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->program_name = Py_NewRef(program_name);
        self->target_name = Py_NewRef(target_name);
        self->otherwise = Py_NewRef(otherwise);
        self->vectorcall = gated_vectorcall;
    }
    return (PyObject *)self;
}

static int
gated_traverse(GatedMethod *self, visitproc visit, void *arg)
{
    Py_VISIT(self->otherwise);
    return 0;
}

static void
gated_dealloc(GatedMethod *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weak_references != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    Py_XDECREF(self->program_name);
    Py_XDECREF(self->target_name);
    Py_XDECREF(self->otherwise);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMemberDef gated_members[] = {
    {"__wrapped__", T_OBJECT_EX, offsetof(GatedMethod, otherwise), READONLY},
    {NULL},
};

static PyTypeObject GatedMethodType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "dynascope.frame.hook.GatedMethod",
    .tp_doc = "GatedMethod(program name, target name, otherwise): calls what the object holds while its program holds.",
    .tp_basicsize = sizeof(GatedMethod),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(GatedMethod, vectorcall),
    .tp_weaklistoffset = offsetof(GatedMethod, weak_references),
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = gated_get,
    .tp_new = gated_new,
    .tp_traverse = (traverseproc)gated_traverse,
    .tp_dealloc = (destructor)gated_dealloc,
    .tp_members = gated_members,
    .tp_getset = gated_properties,
    .tp_getattro = gated_getattro,
};
