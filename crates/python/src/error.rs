//! Errors of the library as the exceptions of `virtualize._errors`.

use pyo3::{exceptions::PyRuntimeError, prelude::*, types::PyList};
use virtualize::{Code, Diagnostic, Error, ErrorClass, Notation, OptionName};

use crate::runtime;

/// Notation of remedies as keyword arguments: `on_mismatch="split"`.
pub(crate) const KEYWORDS: Notation = Notation(|option, value| {
    let name = option.as_str();
    Some(match value {
        Some(value) => format!("{name}={value:?}"),
        None if SWITCHES.contains(&option) => format!("{name}=True"),
        None => format!("{name}=…"),
    })
});

/// Options that are on or off.
const SWITCHES: [OptionName; 11] = {
    use OptionName as O;
    [
        O::AllowHoles,
        O::Anonymous,
        O::Append,
        O::Each,
        O::FillWithoutSentinel,
        O::FollowExternal,
        O::Full,
        O::Overwrite,
        O::Replace,
        O::Restart,
        O::Strict,
    ]
};

/// Returns the exception of an error of the library.
pub(crate) fn of(error: &Error) -> PyErr {
    let name = match error {
        Error::Refused { .. } | Error::Strict { .. } => "RefusedError",
        error => name_of(error.class()),
    };
    let text = error.render(KEYWORDS);
    let made = runtime::attach(|py| {
        make(py, name, text, error.code(), |exception| match error {
            Error::Refused { diagnostics, .. } | Error::Strict { diagnostics, .. } => {
                exception.setattr("diagnostics", diagnostics_of(py, diagnostics)?)
            }
            _ => Ok(()),
        })
    });
    made.unwrap_or_else(ending)
}

/// Returns the exception of an error of a batch or scan.
pub(crate) fn of_archive(error: &virtualize_archive::Error) -> PyErr {
    match error {
        virtualize_archive::Error::File(error) => of(error),
        other => with_class(other.class(), other.code(), other.render(KEYWORDS)),
    }
}

/// Returns an exception of a class of errors. The exception appends the code to the text where it is missing.
pub(crate) fn with_class(class: ErrorClass, code: Code, text: String) -> PyErr {
    runtime::attach(|py| make(py, name_of(class), text, code, |_| Ok(()))).unwrap_or_else(ending)
}

/// Returns the exception that nobody sees, since Python is about to end.
fn ending() -> PyErr {
    PyRuntimeError::new_err("Python is about to end")
}

/// Returns the exception for an invalid argument.
pub(crate) fn option(text: impl Into<String>) -> PyErr {
    with_class(ErrorClass::Usage, Code::Usage, text.into())
}

/// Returns the exception for work that ended without a result, which only a panic can cause.
pub(crate) fn internal() -> PyErr {
    PyRuntimeError::new_err("internal error: please report it, with the message above")
}

/// Returns diagnostics as objects of `virtualize._errors.Diagnostic`.
pub(crate) fn diagnostics_of<'py>(
    py: Python<'py>,
    diagnostics: &[Diagnostic],
) -> PyResult<Bound<'py, PyList>> {
    let class = py.import("virtualize._errors")?.getattr("Diagnostic")?;
    let made = diagnostics.iter().map(|diagnostic| {
        let severity = format!("{:?}", diagnostic.severity).to_lowercase();
        let remedy = diagnostic.remedy.as_ref().and_then(|remedy| remedy.render(KEYWORDS));
        class.call1((diagnostic.code.as_str(), severity, &diagnostic.path, &diagnostic.message, remedy))
    });
    PyList::new(py, made.collect::<PyResult<Vec<_>>>()?)
}

fn name_of(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::Usage | ErrorClass::Conflict => "OptionError",
        ErrorClass::NotFound => "NotFoundError",
        ErrorClass::Denied => "AccessDeniedError",
        ErrorClass::Changed => "ChangedError",
        ErrorClass::Unavailable | ErrorClass::BrokenPipe => "UnavailableError",
        ErrorClass::File => "FileError",
    }
}

fn make(
    py: Python<'_>,
    name: &str,
    text: String,
    code: Code,
    complete: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<()>,
) -> PyErr {
    let made = (|| {
        let exception = py.import("virtualize._errors")?.getattr(name)?.call1((text,))?;
        exception.setattr("code", code.as_str())?;
        complete(&exception)?;
        Ok(PyErr::from_value(exception))
    })();
    made.unwrap_or_else(|error| error)
}

/// Returns the exception for a file that is no longer the one that was opened.
pub(crate) fn changed(name: &str) -> PyErr {
    with_class(
        ErrorClass::Changed,
        Code::SourceChanged,
        format!("{name}: the file changed since it was opened (open it again)"),
    )
}
