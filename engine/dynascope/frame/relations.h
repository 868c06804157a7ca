/* CHECK_RELATIONS: relations between numbers that vary, as a stack program over 64-bit integers.

       x.size(0) % 8 == 0      PUSH_SIZE x 0, PUSH 8, MODULO, PUSH 0, EQUAL

   Numbers are sizes and strides of tensors, whose kind another row has checked, and Python ints. What does not fit into 64 bits is
   UNSURE: Python answers then. Operand: (operand of CHECK_PYTHON, ((step, source number, number), ...), torch.Tensor or None). */

#define RELATION_STEPS(_) \
    _(PUSH) _(PUSH_SIZE) _(PUSH_STRIDE) _(PUSH_NUMBER) _(ADD) _(MULTIPLY) _(FLOOR_DIVIDE) _(MODULO) _(MINIMUM) _(MAXIMUM) \
    _(EQUAL) _(NOT_EQUAL) _(LESS) _(LESS_OR_EQUAL) _(GREATER) _(GREATER_OR_EQUAL)

typedef enum {
#define AS_STEP(name) RELATION_##name,
    RELATION_STEPS(AS_STEP)
#undef AS_STEP
    RELATION_STEP_COUNT
} RelationStep;

enum { RELATION_DEPTH = 32 };

typedef struct {
    int64_t step, source, number;
} RelationOperation;

typedef struct {
    Py_ssize_t count;
    PyObject *tensor_type;       /* borrowed from the operand */
    RelationOperation operations[];
} Relations;

static inline bool
number_at(PyObject *value, int64_t *found)
{
    int overflow = 0;
    if (!PyLong_CheckExact(value)) {
        return false;
    }
    *found = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow == 0;
}

static inline bool
floor_divided(int64_t a, int64_t b, int64_t *quotient, int64_t *remainder)
{
    if (b == 0 || (b == -1 && a == INT64_MIN)) {
        return false;
    }
    *quotient = a / b;
    *remainder = a % b;
    if (*remainder != 0 && (*remainder < 0) != (b < 0)) {
        *remainder += b;
        *quotient -= 1;
    }
    return true;
}

/* 1 where all hold, 0 where one does not. */
static int
relations_hold(const GuardRun *run, const Relations *relations)
{
    int64_t stack[RELATION_DEPTH], quotient, remainder;
    int top = 0;
    for (Py_ssize_t i = 0; i < relations->count; i++) {
        const RelationOperation *operation = &relations->operations[i];
        if (operation->step <= RELATION_PUSH_NUMBER) {
            int64_t *found = &stack[top++];
            bool known = true;
            if (operation->step == RELATION_PUSH) {
                *found = operation->number;
            } else {
                PyObject *value = value_of(run, (int)operation->source);
                known = value != NULL
                    && (operation->step == RELATION_PUSH_NUMBER
                            ? number_at(value, found)
                            : extent_of(value, relations->tensor_type, operation->step == RELATION_PUSH_STRIDE,
                                        operation->number, found));
            }
            if (!known) {
                return CHECK_UNSURE;
            }
            continue;
        }
        int64_t b = stack[--top], a = stack[--top], result = 0;
        bool holds = true, known = true;
        switch (operation->step) {
        case RELATION_ADD: known = !__builtin_add_overflow(a, b, &result); break;
        case RELATION_MULTIPLY: known = !__builtin_mul_overflow(a, b, &result); break;
        case RELATION_FLOOR_DIVIDE: known = floor_divided(a, b, &quotient, &remainder); result = quotient; break;
        case RELATION_MODULO: known = floor_divided(a, b, &quotient, &remainder); result = remainder; break;
        case RELATION_MINIMUM: result = a < b ? a : b; break;
        case RELATION_MAXIMUM: result = a > b ? a : b; break;
        case RELATION_EQUAL: holds = a == b; break;
        case RELATION_NOT_EQUAL: holds = a != b; break;
        case RELATION_LESS: holds = a < b; break;
        case RELATION_LESS_OR_EQUAL: holds = a <= b; break;
        case RELATION_GREATER: holds = a > b; break;
        case RELATION_GREATER_OR_EQUAL: holds = a >= b; break;
        }
        if (!known) {
            return CHECK_UNSURE;
        }
        if (!holds) {
            return 0;
        }
        if (operation->step < RELATION_EQUAL) {
            stack[top++] = result;
        }
    }
    return 1;
}

static Relations *
relations_of(PyObject *operand)
{
    PyObject *steps = PyTuple_GET_SIZE(operand) == 3 ? PyTuple_GET_ITEM(operand, 1) : NULL;
    if (steps == NULL || !PyTuple_Check(steps) || !PyTuple_Check(PyTuple_GET_ITEM(operand, 0))) {
        PyErr_SetString(PyExc_TypeError, "relations are a check in Python, steps, and the type of tensors");
        return NULL;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(steps);
    Relations *relations = PyMem_Malloc(sizeof(Relations) + count * sizeof(RelationOperation));
    if (relations == NULL) {
        return (Relations *)PyErr_NoMemory();
    }
    relations->count = count;
    relations->tensor_type = PyTuple_GET_ITEM(operand, 2);
    int depth = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        long long step, source, number;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(steps, i), "LLL", &step, &source, &number)) {
            PyMem_Free(relations);
            return NULL;
        }
        depth += step <= RELATION_PUSH_NUMBER ? 1 : step < RELATION_EQUAL ? -1 : -2;
        if (step < 0 || step >= RELATION_STEP_COUNT || depth < 0 || depth > RELATION_DEPTH) {
            PyErr_SetString(PyExc_ValueError, "no such step, or too deep a stack");
            PyMem_Free(relations);
            return NULL;
        }
        relations->operations[i] = (RelationOperation){step, source, number};
    }
    return relations;
}
