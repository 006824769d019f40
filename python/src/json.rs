//! Python values written as compact JSON, and nothing else taken.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pisession::{Error, ErrorKind, Json, MAX_DEPTH};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString};

use crate::error::{panicked, text, to_python};

/// The JSON of `value`; `name` is what the caller calls it.
///
/// Without a name it is made of arguments of the caller, and its keys are what he calls them. A `TypeError` names
/// the path to what is no JSON; NaN and infinities are `InvalidJsonError`.
pub(crate) fn json_of(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Json> {
    // A panic would be no `Exception` in Python. All that it leaves behind is this text.
    let written = catch_unwind(AssertUnwindSafe(|| {
        let mut writer = Writer { name, text: String::new(), path: Vec::new() };
        writer.value(value)?;
        Ok(writer.text)
    }));
    let text = written.unwrap_or_else(|panic| Err(panicked(value.py(), &*panic)))?;
    Json::parse(text).map_err(|error| to_python(value.py(), &error))
}

/// The items of a dict as they are now, in the order that Python shows: it may be changed while it is written.
/// What a subclass makes of the methods of a dict is not asked.
fn items<'py>(dict: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyList>> {
    static ORDERED_DICT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = dict.py();
    let ordered = ORDERED_DICT.import(py, "collections", "OrderedDict")?;
    if dict.is_instance(ordered)? {
        return py
            .get_type::<PyList>()
            .call1((ordered.call_method1("items", (dict,))?,))?
            .cast_into()
            .map_err(Into::into);
    }
    Ok(dict.items())
}

/// The text of stored JSON, as Python gets it.
pub(crate) fn bytes_of<'py>(py: Python<'py>, json: &Json) -> Bound<'py, PyBytes> {
    PyBytes::new(py, json.as_str().as_bytes())
}

/// The compact JSON of a value, as it would be stored.
#[pyfunction]
#[pyo3(signature = (value, name="value"))]
pub(crate) fn write_json<'py>(value: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
    Ok(bytes_of(value.py(), &json_of(value, name)?))
}

/// The class of JSON text that is passed on as it is.
fn raw_json(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static RAW_JSON: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    RAW_JSON.import(py, "pisession._values", "RawJson")
}

/// One step from a value to one inside it.
enum Step<'py> {
    Key(Bound<'py, PyString>),
    Index(usize),
}

struct Writer<'a, 'py> {
    name: &'a str,
    text: String,
    path: Vec<Step<'py>>,
}

impl<'py> Writer<'_, 'py> {
    fn value(&mut self, value: &Bound<'py, PyAny>) -> PyResult<()> {
        if value.is_none() {
            self.text.push_str("null");
        } else if let Ok(string) = value.cast::<PyString>() {
            self.string(string)?;
        } else if let Ok(boolean) = value.cast::<PyBool>() {
            self.text.push_str(if boolean.is_true() { "true" } else { "false" });
        } else if let Ok(integer) = value.cast::<PyInt>() {
            self.integer(integer)?;
        } else if let Ok(float) = value.cast::<PyFloat>() {
            self.float(float)?;
        } else if let Ok(dict) = value.cast::<PyDict>() {
            self.dict(dict)?;
        } else if let Ok(list) = value.cast::<PyList>() {
            self.list(list)?;
        } else if value.is_instance(raw_json(value.py())?)? {
            self.raw(value)?;
        } else {
            let what = format!("is of type '{}', which is no JSON", value.get_type().name()?);
            return Err(self.type_error(&what));
        }
        Ok(())
    }

    fn dict(&mut self, dict: &Bound<'py, PyDict>) -> PyResult<()> {
        self.check_depth(dict.py())?;
        self.text.push('{');
        for (number, item) in items(dict)?.iter().enumerate() {
            if number > 0 {
                self.text.push(',');
            }
            let (key, value) = item.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>()?;
            let Ok(key) = key.cast_into::<PyString>() else {
                return Err(self.type_error("has a key that is not a str"));
            };
            self.string(&key)?;
            self.text.push(':');
            self.path.push(Step::Key(key));
            self.value(&value)?;
            self.path.pop();
        }
        self.text.push('}');
        Ok(())
    }

    fn list(&mut self, list: &Bound<'py, PyList>) -> PyResult<()> {
        self.check_depth(list.py())?;
        self.text.push('[');
        // A copy: it may be changed meanwhile.
        for (number, value) in list.get_slice(0, list.len()).iter().enumerate() {
            if number > 0 {
                self.text.push(',');
            }
            self.path.push(Step::Index(number));
            self.value(&value)?;
            self.path.pop();
        }
        self.text.push(']');
        Ok(())
    }

    fn string(&mut self, string: &Bound<'py, PyString>) -> PyResult<()> {
        if let Ok(text) = string.to_str() {
            self.text.push_str(Json::string(text).as_str());
            return Ok(());
        }
        // Lone surrogates are written as escapes; what stands between them is ordinary text.
        let encoded = string
            .py()
            .get_type::<PyString>()
            .call_method1("encode", (string, "utf-8", "surrogatepass"))?
            .cast_into::<PyBytes>()?;
        let mut rest = encoded.as_bytes();
        self.text.push('"');
        while !rest.is_empty() {
            let surrogate =
                rest.windows(3).position(|bytes| bytes[0] == 0xed && bytes[1] >= 0xa0).unwrap_or(rest.len());
            let (clean, after) = rest.split_at(surrogate);
            let quoted = Json::string(&String::from_utf8_lossy(clean));
            self.text.push_str(&quoted.as_str()[1..quoted.as_str().len() - 1]);
            rest = after;
            if let [_, second, third, behind @ ..] = after {
                let unit = 0xd000 | (u32::from(*second) & 0x3f) << 6 | u32::from(*third) & 0x3f;
                // Writing to a String cannot fail.
                let _ = write!(self.text, "\\u{unit:04x}");
                rest = behind;
            }
        }
        self.text.push('"');
        Ok(())
    }

    fn integer(&mut self, integer: &Bound<'py, PyInt>) -> PyResult<()> {
        if let Ok(number) = integer.extract::<i64>() {
            // Writing to a String cannot fail.
            let _ = write!(self.text, "{number}");
            return Ok(());
        }
        // Python limits `str` of large integers; the package knows how to do without.
        static INTEGER_TEXT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = integer.py();
        let text = INTEGER_TEXT.import(py, "pisession._values", "integer_text")?.call1((integer,))?;
        self.text.push_str(text.cast::<PyString>()?.to_str()?);
        Ok(())
    }

    fn float(&mut self, float: &Bound<'py, PyFloat>) -> PyResult<()> {
        let number = float.value();
        if !number.is_finite() {
            let error =
                Error::new(ErrorKind::InvalidJson, format!("{} is {number}, which is no JSON", self.place()))
                    .with_hint("use None or a str");
            return Err(to_python(float.py(), &error));
        }
        // The shortest text that reads back as this double, as `json.dumps` writes it.
        self.text.push_str(PyFloat::new(float.py(), number).repr()?.to_str()?);
        Ok(())
    }

    /// JSON text that the caller has: checked, and kept as it is.
    fn raw(&mut self, value: &Bound<'py, PyAny>) -> PyResult<()> {
        let raw = value.getattr("text")?;
        let json = if let Ok(bytes) = raw.cast::<PyBytes>() {
            Json::from_bytes(bytes.as_bytes())
        } else if let Ok(string) = raw.cast::<PyString>() {
            Json::parse(text(string, ErrorKind::InvalidJson, &format!("the text of {}", self.place()))?)
        } else {
            let (place, found) = (self.place(), raw.get_type().name()?);
            let message =
                format!("the text of {place} must be a str or bytes, not {}", found.to_string_lossy());
            return Err(PyTypeError::new_err(message));
        };
        match json {
            Ok(json) => self.text.push_str(json.as_str()),
            Err(error) => return Err(to_python(value.py(), &error)),
        }
        Ok(())
    }

    fn check_depth(&self, py: Python<'_>) -> PyResult<()> {
        if self.path.len() < MAX_DEPTH {
            return Ok(());
        }
        let error = Error::new(
            ErrorKind::InvalidJson,
            format!("{} nests too deep ({MAX_DEPTH} levels at most)", self.root()),
        )
        .with_hint("a container that holds itself has no end");
        Err(to_python(py, &error))
    }

    fn type_error(&self, what: &str) -> PyErr {
        PyTypeError::new_err(format!(
            "{} {what}; use dict (with str keys), list, str, int, float, bool or None",
            self.place()
        ))
    }

    /// What the caller calls the value; without a name it is one of his arguments, by the key it got.
    fn root(&self) -> String {
        match self.path.first() {
            Some(Step::Key(key)) if self.name.is_empty() => key.to_string_lossy().into_owned(),
            _ => self.name.to_owned(),
        }
    }

    /// The path to the value being written, as one would spell it in Python.
    fn place(&self) -> String {
        let mut place = self.root();
        for step in self.path.iter().skip(usize::from(self.name.is_empty())) {
            // Writing to a String cannot fail.
            let _ = match step {
                Step::Key(key) => write!(place, "[{}]", Json::string(&key.to_string_lossy())),
                Step::Index(index) => write!(place, "[{index}]"),
            };
        }
        place
    }
}
