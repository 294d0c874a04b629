/* Base class that forwards len(), indexing and iteration to another object.
 *
 * Mercurial reads millions of index entries, and a method in Python costs as much as the
 * entry itself. Subclasses in Python add the rest. The type keeps one reference, `_index`,
 * and counts the entries read: after the first `FEW`, or at an iteration, it calls
 * `_walked()` once.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <stddef.h>

/* Entries read by a look-up or a short log. */
#define FEW 1024

typedef struct {
	PyObject_HEAD
	PyObject *index;
	int left; /* entries before `_walked()`; 0 after it */
} Forwarding;

static PyObject *target(PyObject *self)
{
	PyObject *index = ((Forwarding *)self)->index;
	if (index == NULL)
		PyErr_SetString(PyExc_AttributeError, "_index");
	return index;
}

static int forwarding_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
	PyObject *index, *old = ((Forwarding *)self)->index;
	if (kwargs != NULL && PyDict_Size(kwargs) != 0) {
		PyErr_SetString(PyExc_TypeError, "no keyword arguments are taken");
		return -1;
	}
	if (!PyArg_ParseTuple(args, "O:Forwarding", &index))
		return -1;
	Py_INCREF(index);
	((Forwarding *)self)->index = index;
	((Forwarding *)self)->left = FEW;
	Py_XDECREF(old);
	return 0;
}

static int report_walk(PyObject *self)
{
	PyObject *nothing;
	((Forwarding *)self)->left = 0;
	nothing = PyObject_CallMethod(self, "_walked", NULL);
	Py_XDECREF(nothing);
	return nothing == NULL ? -1 : 0;
}

static int forwarding_traverse(PyObject *self, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(self));
	Py_VISIT(((Forwarding *)self)->index);
	return 0;
}

static int forwarding_clear(PyObject *self)
{
	Py_CLEAR(((Forwarding *)self)->index);
	return 0;
}

static void forwarding_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
	PyObject_GC_UnTrack(self);
	forwarding_clear(self);
	release(self);
	Py_DECREF(type);
}

static Py_ssize_t forwarding_length(PyObject *self)
{
	PyObject *index = target(self);
	return index == NULL ? -1 : PyObject_Size(index);
}

static PyObject *forwarding_subscript(PyObject *self, PyObject *key)
{
	PyObject *index = target(self);
	Forwarding *forwarding = (Forwarding *)self;
	if (index == NULL)
		return NULL;
	if (forwarding->left != 0 && --forwarding->left == 0 && report_walk(self) < 0)
		return NULL;
	return PyObject_GetItem(index, key);
}

static PyObject *forwarding_iter(PyObject *self)
{
	PyObject *index = target(self);
	if (index == NULL || (((Forwarding *)self)->left != 0 && report_walk(self) < 0))
		return NULL;
	return PyObject_GetIter(index);
}

static PyMemberDef forwarding_members[] = {
    {"_index", T_OBJECT_EX, offsetof(Forwarding, index), READONLY,
     "the object forwarded to"},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot forwarding_slots[] = {
    {Py_tp_doc, "Passes len(), indexing and iteration on to an object."},
    {Py_tp_init, forwarding_init},
    {Py_tp_traverse, forwarding_traverse},
    {Py_tp_clear, forwarding_clear},
    {Py_tp_dealloc, forwarding_dealloc},
    {Py_tp_members, forwarding_members},
    {Py_tp_iter, forwarding_iter},
    {Py_mp_length, forwarding_length},
    {Py_mp_subscript, forwarding_subscript},
    {0, NULL},
};

static PyType_Spec forwarding_spec = {
    "hgext3rd.amalgam.core._forwarding.Forwarding",
    sizeof(Forwarding),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    forwarding_slots,
};

static int forwarding_exec(PyObject *module)
{
	PyObject *type = PyType_FromSpec(&forwarding_spec);
	int failed = type == NULL || PyModule_AddObjectRef(module, "Forwarding", type) < 0;
	Py_XDECREF(type);
	return failed ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, forwarding_exec},
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_forwarding", NULL, 0, NULL, module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__forwarding(void)
{
	return PyModuleDef_Init(&module);
}
